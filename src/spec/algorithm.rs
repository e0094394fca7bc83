//! The algorithm of a join in words.

use crate::ir::strategies::{EquiStrategy, Strategy};
use crate::spec::join::JoinSpec;

impl JoinSpec {
    /// The algorithm in words, for `bowtie_explain`.
    pub(crate) fn algorithm(&self) -> String {
        let build = self.theta.build;
        let inside = match self.theta.equalities.is_empty() {
            true => "",
            false => " within equal keys",
        };
        match self.theta.strategy() {
            Strategy::Equi(None) => "an equi-join by the algorithm that the device chooses".into(),
            Strategy::Equi(Some(strategy)) => match strategy {
                EquiStrategy::Direct if self.emits_pairs() || !self.whole_filter.is_empty() => {
                    format!("keys of the {build} side are array indexes")
                }
                EquiStrategy::Direct => {
                    format!(
                        "keys of the {build} side are array indexes, into a bitmap where they are dense"
                    )
                }
                EquiStrategy::Hash => format!("one hash table of the {build} side's keys"),
                EquiStrategy::PartitionedHash => {
                    "both sides are partitioned by their keys' hashes".into()
                }
                EquiStrategy::SortMerge => "both sides are sorted by their keys and merged".into(),
            },
            Strategy::Range if self.theta.partners().is_some() => {
                format!(
                    "the {build} side is sorted by one column{inside}, in which the partners that a row keeps are neighbours"
                )
            }
            Strategy::Range => {
                format!(
                    "the {build} side is sorted by one column, in which all inequalities are ranges{inside}"
                )
            }
            Strategy::Dominance => format!(
                "the {build} side is sorted by its most selective column{inside}, and zone maps test the other comparisons"
            ),
            Strategy::Tiles if self.theta.comparisons.is_empty() && self.program.is_some() => {
                format!("all pairs{inside} are tested by a compiled filter")
            }
            Strategy::Tiles => format!("all pairs{inside} that zone maps cannot decide are tested"),
            Strategy::Set(technique) => {
                let how = match technique {
                    None => "the device chooses the technique".to_string(),
                    Some(technique) => format!("by the technique {technique}"),
                };
                format!("sets of the {build} side are indexed{inside}, {how}")
            }
        }
    }
}
