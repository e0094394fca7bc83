//! Which of its partners each row of a join's probe side keeps: as-of joins, nearest neighbours, the first `k` partners of each row.

use arrow::compute::SortOptions;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::partners::PartnerLimit;

/// How the build side's order tells which partners are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partners {
    pub limit: PartnerLimit,
    /// The build side's column by whose order partners are kept. All comparisons of the join are ranges of it.
    pub column: usize,
    /// Of the nearest partners: the probe side's column that they are near to.
    pub centre: Option<usize>,
}

/// The partners that each right row keeps: the first ones of all of its matches in an order of values of pairs.
#[derive(Debug, Clone)]
pub(crate) struct BestPartners {
    /// The most partners of a row; at least 1.
    pub most: u32,
    /// Whether partners that are as good as the last one kept are kept, too: a node above drops those that are too many.
    pub with_ties: bool,
    pub keys: Vec<PartnerKey>,
    /// The keys as EXPLAIN shows them, where no range tells the partners.
    pub display: String,
}

/// What each row's partners are ordered by, as the query says it.
#[derive(Debug, Clone)]
pub(crate) struct PartnerKey {
    pub value: KeyValue,
    pub options: SortOptions,
}

/// The value of a pair by which partners are ordered.
#[derive(Debug, Clone)]
pub(crate) enum KeyValue {
    /// An expression over columns of both sides.
    OfColumns(JoinFilter),
    /// A value of the sets by which the pair matches, by its number in [`JoinSpec::values`](crate::spec::join::JoinSpec::values).
    OfSets(usize),
}

impl BestPartners {
    /// The keys that are expressions of columns.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &JoinFilter> {
        self.keys.iter().filter_map(|key| match &key.value {
            KeyValue::OfColumns(expression) => Some(expression),
            KeyValue::OfSets(_) => None,
        })
    }
}
