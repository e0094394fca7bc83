//! [`Statements`]: a text that is read line by line, as its statements, and the commands between them.
//!
//! A statement ends at a `;` outside quotes and comments, or at the end of the text. A command is a line that begins with `\` where no statement
//! has begun.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// What a text has next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Statement(String),
    /// A line with its `\`.
    Command(String),
}

impl Input {
    /// Errors count lines from the statement's first one.
    fn of_statement(text: &str) -> Self {
        Self::Statement(text.trim_start().to_string())
    }
}

/// A text as its statements and commands. Each is returned as soon as its last line was read.
pub(crate) struct Statements<R> {
    lines: R,
    is_first_line: bool,
    /// Statements of lines that were read.
    complete: VecDeque<String>,
    /// The beginning of the next one.
    begun: String,
    /// Its bytes when a quote or a comment was last found open in it.
    open_bytes: usize,
}

impl<R: BufRead> Statements<R> {
    pub(crate) fn new(lines: R) -> Self {
        Self {
            lines,
            is_first_line: true,
            complete: VecDeque::new(),
            begun: String::new(),
            open_bytes: 0,
        }
    }

    /// The next statement or command; `None` at the end of the text.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub(crate) fn next(&mut self, dialect: &dyn Dialect) -> io::Result<Option<Input>> {
        loop {
            if let Some(statement) = self.complete.pop_front() {
                return Ok(Some(Input::of_statement(&statement)));
            }
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                let last = std::mem::take(&mut self.begun);
                return Ok((!last.is_empty()).then(|| Input::of_statement(&last)));
            }
            if std::mem::take(&mut self.is_first_line) {
                // Some editors write a mark of the encoding.
                line = line.trim_start_matches('\u{feff}').to_string();
                // The line that names the shell of a script.
                if line.starts_with("#!") {
                    continue;
                }
            }
            if self.begun.is_empty() && line.starts_with('\\') {
                return Ok(Some(Input::Command(line.trim_end().to_string())));
            }
            // A statement of many lines is searched again only where it may end.
            let may_end = self.begun.is_empty() || line.contains(';') || line.contains("*/");
            let may_close = line.contains(['\'', '"', '`', '$']) || line.contains("*/");
            self.begun.push_str(&line);
            // Within a long quote only where that may end, or now and then.
            let may_end = may_end && (may_close || self.begun.len() >= 2 * self.open_bytes);
            if may_end {
                self.complete_statements(dialect);
            }
        }
    }

    /// Moves complete statements out of the text that was read.
    fn complete_statements(&mut self, dialect: &dyn Dialect) {
        let mut tokens: Vec<TokenWithSpan> = vec![];
        // Where a quote or a comment is open, the tokens before it are there.
        let is_closed = Tokenizer::new(dialect, &self.begun)
            .tokenize_with_location_into_buf(&mut tokens)
            .is_ok();
        let is_end = |token: &TokenWithSpan| token.token == Token::SemiColon;
        let mut ends = tokens.iter().filter(|token| is_end(token)).peekable();
        let mut at = Location::new(1, 1);
        let mut from = 0;
        for (i, character) in self.begun.char_indices() {
            if ends.next_if(|end| end.span.end == at).is_some() {
                self.complete.push_back(self.begun[from..i].to_string());
                from = i;
            }
            at = match character {
                '\n' => Location::new(at.line + 1, 1),
                _ => Location::new(at.line, at.column + 1),
            };
        }
        if ends.next().is_some() {
            self.complete.push_back(self.begun[from..].to_string());
            from = self.begun.len();
        }
        self.begun.drain(..from);
        self.open_bytes = if is_closed { 0 } else { self.begun.len() };
        let mut behind = tokens.rsplit(is_end).next().unwrap_or_default().iter();
        if is_closed && behind.all(|token| matches!(token.token, Token::Whitespace(_))) {
            self.begun.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::{Input, Statements};

    /// The statements of a text, trimmed, and its commands.
    fn read(text: &str) -> Vec<String> {
        let mut statements = Statements::new(text.as_bytes());
        let mut found = vec![];
        while let Some(next) = statements.next(&GenericDialect).unwrap() {
            found.push(match next {
                Input::Statement(sql) => sql.trim_end().to_string(),
                Input::Command(line) => line,
            });
        }
        found
    }

    #[test]
    fn statements_end_outside_quotes_and_comments() {
        for (text, expected) in [
            ("", vec![]),
            ("\n  -- nothing\n/* ; */\n", vec![]),
            ("select 1; select 2;\n", vec!["select 1;", "select 2;"]),
            ("select 1;\nselect 2", vec!["select 1;", "select 2"]),
            (
                "select 'a;b',\n 'it''s;';",
                vec!["select 'a;b',\n 'it''s;';"],
            ),
            ("select 1 as \"a;b\";", vec!["select 1 as \"a;b\";"]),
            (
                "select $$ ; $$;select $t$ $$;\n $t$;",
                vec!["select $$ ; $$;", "select $t$ $$;\n $t$;"],
            ),
            ("select 1 -- one;\n;", vec!["select 1 -- one;\n;"]),
            ("select /* ;\n; */ 1;", vec!["select /* ;\n; */ 1;"]),
            (
                "select 'é;\n';select 2;",
                vec!["select 'é;\n';", "select 2;"],
            ),
            ("select 'open; select 2;\n", vec!["select 'open; select 2;"]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn commands_stand_between_statements() {
        let text = "#!/usr/bin/bowtie-sql -f\n\\d\r\n-- tables\n/* of\n two lines */\n\\d t\nselect 1 +\n\\q\n;\n\\q";
        let expected = ["\\d", "\\d t", "select 1 +\n\\q\n;", "\\q"];
        assert_eq!(read(text), expected);
    }
}
