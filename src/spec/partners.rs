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

/// What each row's partners are ordered by, as the query says it.
#[derive(Debug, Clone)]
pub(crate) struct PartnerKey {
    /// Its expression, over columns of both sides.
    pub value: JoinFilter,
    pub options: SortOptions,
}
