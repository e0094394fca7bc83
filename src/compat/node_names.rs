//! Plan nodes that are known by their names, as their types are private or many.

/// A scan.
pub(crate) const SCAN: &str = "DataSourceExec";

/// Nodes that only move rows between the host's threads.
const MOVING: [&str; 8] = [
    "RepartitionExec",
    "CoalescePartitionsExec",
    "SortPreservingMergeExec",
    "CoalesceBatchesExec",
    "InterleaveExec",
    "CooperativeExec",
    "BufferExec",
    "OutputRequirementExec",
];

/// Whether a node of this name only moves rows between the host's threads.
pub(crate) fn only_moves(name: &str) -> bool {
    MOVING.contains(&name)
}

/// Why a node of this name is not offloaded, for users; `None` for names without a reason of their own.
pub(crate) fn why_not_offloaded(name: &str) -> Option<&'static str> {
    Some(match name {
        "WindowAggExec" | "BoundedWindowAggExec" => {
            "window functions run in DataFusion: no device has them"
        }
        "UnnestExec" => "UNNEST runs in DataFusion: no device has it",
        "RecursiveQueryExec" | "WorkTableExec" => {
            "recursive queries run in DataFusion: no device has them"
        }
        "PlaceholderRowExec" | "EmptyExec" => "there are no rows to work on",
        "DataSinkExec" => "it writes rows",
        "AnalyzeExec" | "ExplainExec" => "it shows the plan below",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::datasource::sink::DataSinkExec;
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::analyze::AnalyzeExec;
    use datafusion::physical_plan::buffer::BufferExec;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::coop::CooperativeExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::explain::ExplainExec;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
    use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
    use datafusion::physical_plan::union::InterleaveExec;
    use datafusion::physical_plan::unnest::UnnestExec;
    use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
    use datafusion::physical_plan::work_table::WorkTableExec;

    use super::*;

    fn name_of<T: ExecutionPlan>() -> &'static str {
        T::static_name()
    }

    #[test]
    fn names_are_those_of_datafusions_nodes() {
        const REMEDY: &str = "DataFusion has renamed or removed a node: change its name here";
        assert_eq!(SCAN, name_of::<DataSourceExec>(), "{REMEDY}");
        for name in [
            name_of::<RepartitionExec>(),
            name_of::<CoalescePartitionsExec>(),
            name_of::<SortPreservingMergeExec>(),
            name_of::<InterleaveExec>(),
            name_of::<CooperativeExec>(),
            name_of::<BufferExec>(),
            name_of::<OutputRequirementExec>(),
        ] {
            assert!(only_moves(name), "{name}: {REMEDY}");
        }
        for name in [
            name_of::<WindowAggExec>(),
            name_of::<BoundedWindowAggExec>(),
            name_of::<UnnestExec>(),
            name_of::<RecursiveQueryExec>(),
            name_of::<WorkTableExec>(),
            name_of::<PlaceholderRowExec>(),
            name_of::<EmptyExec>(),
            name_of::<DataSinkExec>(),
            name_of::<AnalyzeExec>(),
            name_of::<ExplainExec>(),
        ] {
            assert!(why_not_offloaded(name).is_some(), "{name}: {REMEDY}");
        }
    }
}
