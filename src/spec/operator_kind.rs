//! [`OperatorKind`]: what an operator of a device does.

/// What an operator of a device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorKind {
    Join,
    /// Groups of a join's rows, which are not made.
    JoinAggregate,
    Aggregate,
    Filter,
    Projection,
    Union,
    Sort,
    Limit,
    Clusters,
    /// Of stored columns.
    Scan,
    /// To a device.
    Upload,
}

impl OperatorKind {
    /// The name of its nodes in EXPLAIN.
    pub(crate) fn node_name(self) -> &'static str {
        match self {
            Self::Join => "BowtieJoinExec",
            Self::JoinAggregate => "BowtieJoinAggregateExec",
            Self::Aggregate => "BowtieAggregateExec",
            Self::Filter => "BowtieFilterExec",
            Self::Projection => "BowtieProjectionExec",
            Self::Union => "BowtieUnionExec",
            Self::Sort => "BowtieSortExec",
            Self::Limit => "BowtieLimitExec",
            Self::Clusters => "BowtieClustersExec",
            Self::Scan => "BowtieScanExec",
            Self::Upload => "BowtieUploadExec",
        }
    }
}
