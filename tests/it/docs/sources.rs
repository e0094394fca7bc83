//! The files of the workspace's sources without tests, and the string literals in them.

use std::fs;
use std::path::{Path, PathBuf};

/// The sources of the library, the shell and the Python package, by the names of their folders beside the package of the tests.
pub(super) const MEMBERS: [&str; 4] = ["src", "cli/src", "python/src", "distributed/src"];

/// The files of one of [`MEMBERS`]. Files and folders of tests are left out, which quote messages too.
pub(super) fn files(member: &str) -> Vec<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![package.join("..").join(member)];
    let mut files = vec![];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The texts in double quotes of the Python package's own files, of which none stands in more than one line.
pub(super) fn texts_of_python() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/datafusion_bowtie");
    let mut texts = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let text = fs::read_to_string(path).unwrap();
            let quoted = text
                .lines()
                .flat_map(|line| line.split('"').skip(1).step_by(2));
            texts.extend(quoted.map(str::to_string));
        }
    }
    texts
}

/// The messages among the texts of the Python package's own files, and the lines that raise something else than such a message.
pub(super) fn messages_of_python() -> (Vec<String>, Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/datafusion_bowtie");
    let (mut messages, mut others) = (vec![], vec![]);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        let mut in_refusal = false;
        for line in fs::read_to_string(path).unwrap().lines() {
            if line.starts_with("def ") {
                in_refusal = line.starts_with("def _refusal(");
            }
            let code = line.trim();
            if let Some(raised) = code.strip_prefix("raise ")
                && !["(message", "(_refusal("]
                    .iter()
                    .any(|made| raised.contains(made))
            {
                others.push(line.to_string());
            }
            // The name of what is refused is no message.
            if code.starts_with("message = ") || (in_refusal && !code.starts_with("name = ")) {
                let quoted = line.split('"').skip(1).step_by(2);
                messages.extend(quoted.map(str::to_string));
            }
        }
    }
    (messages, others)
}

/// The text of a file up to its own tests.
pub(super) fn text_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    match text.find("#[cfg(test)]\nmod tests {") {
        Some(tests) => text[..tests].to_string(),
        None => text,
    }
}

/// A string literal of a source.
#[derive(Debug, PartialEq)]
pub(super) struct Literal<'a> {
    /// What stands before it.
    pub(super) before: &'a str,
    /// Its value, with one space for each run of white space. Lines that are continued are joined.
    pub(super) value: String,
}

pub(super) fn literals(text: &str) -> Vec<Literal<'_>> {
    let mut found = vec![];
    let mut rest = text;
    let mut push = |rest: &str, value: &str| {
        found.push(Literal {
            before: &text[..text.len() - rest.len()],
            value: with_single_spaces(value),
        });
    };
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '\'' {
            length_of_character(rest)
        } else if let Some(hashes) = hashes_of_raw(rest) {
            let begin = 2 + hashes;
            let end = format!("\"{}", "#".repeat(hashes));
            let length = rest[begin..].find(&end).unwrap_or(rest.len() - begin);
            push(rest, &rest[begin..begin + length]);
            begin + length + end.len()
        } else if first == '"' {
            let (literal, length) = literal(rest);
            push(rest, &literal);
            length
        } else if first.is_alphanumeric() || first == '_' {
            // A whole word, so that its last letter is not taken for that of a raw literal.
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            match word {
                // Of bytes and of C, which may be raw, too.
                Some(1) if matches!(first, 'b' | 'c') => 1,
                Some(2) if rest.starts_with("br") || rest.starts_with("cr") => 1,
                word => word.unwrap_or(rest.len()),
            }
        } else {
            first.len_utf8()
        };
        rest = rest.get(length..).unwrap_or("");
    }
    found
}

/// The bytes of the character literal that `rest` begins with; of the quote alone if it begins a lifetime.
fn length_of_character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            rest[from..]
                .find('\'')
                .map_or(rest.len(), |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// The number of hashes before the quote of the raw literal that `rest` begins with; `None` if it begins with something else.
fn hashes_of_raw(rest: &str) -> Option<usize> {
    let behind = rest.strip_prefix('r')?;
    let opened = behind.trim_start_matches('#');
    opened.starts_with('"').then(|| behind.len() - opened.len())
}

/// The value of the literal that `rest` begins with, and its bytes in the source.
fn literal(rest: &str) -> (String, usize) {
    let mut value = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, at + 1),
            '\\' => match characters.next() {
                Some((_, '\n')) => {
                    while characters.next_if(|(_, c)| c.is_whitespace()).is_some() {}
                }
                Some((_, 'n' | 't' | 'r')) => value.push(' '),
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            character => value.push(character),
        }
    }
    (value, rest.len())
}

fn with_single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn literals_are_read() {
    let source = r###"
        // "a comment"
        /* "another one" */
        let a = ("one \
                  line", 'x', '"', '\'', b"bytes \"quoted\"", r#"raw "quoted" \"#, r"\d");
        fn of<'a>(text: &'a str) -> &'a str { "last" }
    "###;
    let expected = [
        "one line",
        "bytes \"quoted\"",
        "raw \"quoted\" \\",
        "\\d",
        "last",
    ];
    let literals = literals(source);
    let values: Vec<_> = literals.iter().map(|literal| &literal.value).collect();
    assert_eq!(values, expected);
    assert!(literals[0].before.ends_with("let a = ("));
}
