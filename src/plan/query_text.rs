//! [`query_plan`]: the logical plan of a query that a table function has as text.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use futures::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Plans a text: a query, or the name of a table, which reads as `SELECT *` of it. `function` has it as an argument.
///
/// # Errors
/// If it is neither.
pub(crate) fn query_plan(function: &str, state: &SessionState, text: &str) -> Result<LogicalPlan> {
    let _nested = Nested::begin(function, DEPTH.get())?;
    let query = match names_a_table(state, text) {
        true => format!("SELECT * FROM {text}"),
        false => text.to_string(),
    };
    let dialect = state.config_options().sql_parser.dialect;
    let refused = |error: DataFusionError| {
        let error = unplanned(function, error);
        match may_need_quotes(text) {
            true => error.context(format!(
                "if this names a table, {function} needs it in double quotes: '\"{text}\"'"
            )),
            false => error,
        }
    };
    let statement = state.sql_to_statement(&query, &dialect).map_err(refused)?;
    if !is_query(&statement) {
        return Err(no_query(function));
    }
    let plan = at_once(|| state.statement_to_plan(statement.clone())).map_err(refused)?;
    // Queries may have other statements in them, such as SELECT … INTO.
    let reads = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    reads.verify_plan(&plan).map_err(|_| no_query(function))?;
    Ok(plan)
}

/// The error of a query that cannot be planned.
pub(crate) fn unplanned(function: &str, error: DataFusionError) -> DataFusionError {
    let is_twice = error.to_string().contains("require unique");
    let error = error.context(format!("{function} cannot plan its query"));
    match is_twice {
        true => {
            error.context("two columns of a query need two names, such as SELECT id, id AS other")
        }
        false => error,
    }
}

/// Whether a text that is no query may be the name of a table that is not one plain word in lower case.
fn may_need_quotes(text: &str) -> bool {
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.');
    let first = text.split_whitespace().next().unwrap_or_default();
    let begins_query = ["select", "with", "values", "from", "table"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word));
    let is_plain = |c: char| c.is_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    !begins_query && text.chars().all(of_name) && !text.chars().all(is_plain)
}

fn no_query(function: &str) -> DataFusionError {
    DataFusionError::Plan(format!(
        "{function} takes a plain query (SELECT, WITH or VALUES): run any other statement by itself"
    ))
}

fn is_query(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(**statement, ast::Statement::Query(_)),
        _ => false,
    }
}

/// Whether a text is a name, with its catalog and schema or without, and no query.
fn names_a_table(state: &SessionState, text: &str) -> bool {
    let Some(dialect) = dialect_from_str(state.config_options().sql_parser.dialect) else {
        return false;
    };
    let Ok(mut tokens) = Tokenizer::new(dialect.as_ref(), text).tokenize() else {
        return false;
    };
    tokens.retain(|token| !matches!(token, Token::Whitespace(_)));
    let are_names = tokens.iter().enumerate().all(|(i, token)| match i % 2 {
        0 => matches!(token, Token::Word(_) | Token::SingleQuotedString(_)),
        _ => *token == Token::Period,
    });
    are_names && tokens.len() % 2 == 1
}

thread_local! {
    /// Queries in queries that this thread plans.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Queries in queries at most: each one takes a part of the stack.
const MOST_DEPTH: usize = 16;

/// Counts a query in a query.
struct Nested(usize);

impl Nested {
    /// The query in that of `outer` depth.
    fn begin(function: &str, outer: usize) -> Result<Self> {
        if outer >= MOST_DEPTH {
            return Err(DataFusionError::Plan(format!(
                "{function} has {MOST_DEPTH} queries around it that are arguments of functions, and no more are planned: use views"
            )));
        }
        Ok(Self(DEPTH.replace(outer + 1)))
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

/// The plan of a future that may have to wait for a catalog. DataFusion calls table functions where nothing can be awaited. Catalogs in
/// memory answer immediately; others are waited for, by this thread where the runtime has others, or else by one of its own.
fn at_once<F>(planning: impl Fn() -> F + Sync) -> Result<LogicalPlan>
where
    F: Future<Output = Result<LogicalPlan>>,
{
    if let Some(planned) = planning().now_or_never() {
        return planned;
    }
    if let Ok(runtime) = Handle::try_current()
        && runtime.runtime_flavor() == RuntimeFlavor::MultiThread
    {
        let has_begun = Cell::new(false);
        let waited = || {
            block_in_place(|| {
                has_begun.set(true);
                runtime.block_on(planning())
            })
        };
        // It panics in a `LocalSet` before it begins, and nothing tells beforehand whether it would. A `LocalSet` is not of a worker
        // thread, so workers go on while its thread waits.
        return match catch_unwind(AssertUnwindSafe(waited)) {
            Ok(planned) => planned,
            Err(panic) if has_begun.get() => resume_unwind(panic),
            Err(_) => on_own_thread(|| runtime.block_on(planning())),
        };
    }
    on_own_thread(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(planning())
    })
}

/// Plans on a thread of its own, for which this one waits.
fn on_own_thread(plan: impl FnOnce() -> Result<LogicalPlan> + Send) -> Result<LogicalPlan> {
    let depth = DEPTH.get();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            DEPTH.set(depth);
            plan()
        });
        let planned = waiting.join();
        planned.unwrap_or_else(|panic| resume_unwind(panic))
    })
}
