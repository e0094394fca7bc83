//! Sorts and limits of the rows of a device node.

use std::fmt;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::LexOrdering;

/// A column by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortColumn {
    pub column: usize,
    pub options: SortOptions,
}

/// A sort.
#[derive(Debug, Clone)]
pub(crate) struct SortSpec {
    /// The first one counts most.
    pub keys: Vec<SortColumn>,
    /// The number of rows that are kept; `None` for all.
    pub fetch: Option<usize>,
    /// The output: the first columns of the input. Those behind them are keys that were computed for the sort.
    pub schema: SchemaRef,
    /// The output's order, as DataFusion says it.
    pub ordering: LexOrdering,
}

impl SortSpec {
    /// Its keys as EXPLAIN shows them.
    pub(crate) fn display(&self) -> String {
        shown(&self.ordering)
    }
}

/// Keys of a sort as EXPLAIN shows them.
pub(crate) fn shown(ordering: &LexOrdering) -> String {
    let keys = ordering.iter().map(ToString::to_string);
    keys.collect::<Vec<_>>().join(", ")
}

/// A limit: `skip` rows are dropped, and of the others `fetch` are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitSpec {
    pub skip: usize,
    /// `None`: all.
    pub fetch: Option<usize>,
}

impl fmt::Display for LimitSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skip={}", self.skip)?;
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}
