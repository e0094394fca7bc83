//! SQL statements of a command line: texts of `-c` and files of `-f`, cut to statements by DataFusion's parser, so that a semicolon inside a
//! string or a comment ends none.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{GenericDialect, dialect_from_str};
use datafusion_bowtie::BowtieContextExt;

use crate::commands::Done;

#[derive(Args)]
pub(crate) struct Statements {
    /// Statements to run, separated by semicolons. It may be given several times.
    #[arg(short, long)]
    command: Vec<String>,
    /// A file of statements, separated by semicolons. It may be given several times.
    #[arg(short, long)]
    file: Vec<PathBuf>,
    /// Prints the time of each statement.
    #[arg(long)]
    timing: bool,
}

impl Statements {
    /// Runs the statements one after the other, and prints their rows. Of a text that cannot be parsed none runs.
    pub(crate) async fn run(self, context: &SessionContext) -> Done {
        let mut texts = self.command;
        for file in self.file {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            texts.push(text);
        }
        for text in texts {
            for statement in parse(context, &text)? {
                let begun = Instant::now();
                let batches = execute(context, statement).await?;
                if !batches.is_empty() {
                    println!("{}", pretty_format_batches(&batches)?);
                }
                if self.timing {
                    println!("{:.3} s", begun.elapsed().as_secs_f64());
                }
            }
        }
        Ok(())
    }
}

/// The statements of a text, in the session's dialect.
fn parse(context: &SessionContext, text: &str) -> Result<VecDeque<Statement>> {
    let state = context.state();
    let options = &state.config_options().sql_parser;
    let dialect = dialect_from_str(options.dialect).unwrap_or_else(|| Box::new(GenericDialect));
    DFParserBuilder::new(text)
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()?
        .parse_statements()
}

/// Runs a statement to its end.
async fn execute(context: &SessionContext, statement: Statement) -> Result<Vec<RecordBatch>> {
    let plan = context.state().statement_to_plan(statement).await?;
    let rows = match context.execute_bowtie_reset(&plan)? {
        Some(reset) => reset,
        None => context.execute_logical_plan(plan).await?,
    };
    rows.collect().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_outside_strings_and_comments() {
        let context = SessionContext::new();
        for (text, expected) in [
            ("", vec![]),
            ("\n-- nothing;\n/* ;\n */ ;\n", vec![]),
            ("SELECT 1; SELECT 2", vec!["SELECT 1", "SELECT 2"]),
            ("SELECT 1;\r\nSELECT 2;\r\n", vec!["SELECT 1", "SELECT 2"]),
            (
                "SELECT 'a;\nb'; -- one;\nRESET bowtie.offload;\n",
                vec!["SELECT 'a;\nb'", "RESET bowtie.offload"],
            ),
            ("SELECT /* ;\n */ 1;\n", vec!["SELECT 1"]),
        ] {
            let statements = parse(&context, text).unwrap();
            let found: Vec<String> = statements.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{text}");
        }
        assert!(parse(&context, "SELECT 1; SELECT 'open;\n").is_err());
    }
}
