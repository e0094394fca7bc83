//! Rates of grouped aggregation.

use std::sync::Arc;

use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::BowtieError;
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;
use crate::options::{GroupStrategy, MaterializationChoice};
use crate::rates::{Rate, Zipf, numbers, open, permuted, scattered, timed};

/// Where keys lie, and in which order they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysOf {
    /// The numbers from 0 on, in no order.
    Dense,
    /// Anywhere, in no order.
    Scattered,
    /// The numbers from 0 on, ascending.
    Ordered,
}

/// Sums by a key: sweeps after \[W\] 5.2, which has MAX of two columns.
#[derive(Debug, Clone, Copy)]
pub struct GroupCase {
    /// The number of rows.
    pub rows: usize,
    /// The number of keys, a power of two.
    pub groups: usize,
    /// Bytes of a key: 4 or 8.
    pub key_bytes: usize,
    /// The number of summed columns of 8 bytes.
    pub sums: usize,
    /// The exponent of Zipf's distribution of the keys; 0: uniform.
    pub zipf: f64,
    pub keys: KeysOf,
}

impl GroupCase {
    fn key(&self, i: u64) -> u64 {
        let groups = self.groups as u64;
        let key = match (self.keys, self.zipf) {
            (KeysOf::Ordered, _) => (u128::from(i) * u128::from(groups) / self.rows as u128) as u64,
            (_, 0.0) => scattered(i) % groups,
            (_, zipf) => permuted(Zipf::new(groups, zipf).at(i), groups),
        };
        match self.keys {
            KeysOf::Dense | KeysOf::Ordered => key,
            // An odd factor is a permutation of the words.
            KeysOf::Scattered => key.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        }
    }

    /// The bytes that must be read, and written for each group: each input and output value once.
    pub fn least_bytes(&self, groups: usize) -> usize {
        (self.rows + groups) * (self.key_bytes + 8 * self.sums)
    }
}

/// The rows of a case on a device, for repeated aggregations.
#[derive(Debug)]
pub struct GroupRows {
    case: GroupCase,
    device: Arc<dyn Device>,
    keys: Arc<Column>,
    values: Vec<Arc<Column>>,
}

impl GroupRows {
    /// Generates the columns of a case, and uploads them to a device, named as in `bowtie.device`.
    ///
    /// # Errors
    /// If there is no such device, or not enough memory.
    pub fn new(device: &str, case: GroupCase) -> datafusion::error::Result<Self> {
        let device = open(device)?;
        let keys = numbers(case.rows, case.key_bytes, |i| case.key(i));
        let keys = device.upload(&[keys])?;
        let values = (0..case.sums)
            .map(|c| device.upload(&[numbers(case.rows, 8, |i| scattered(i ^ (c as u64) << 40))]))
            .collect::<Result<_, BowtieError>>()?;
        Ok(Self {
            case,
            device,
            keys,
            values,
        })
    }

    /// Groups `runs` times by a strategy and a materialisation, named as in the options. The output includes the keys. The result names
    /// what ran: `sort-early`, or the strategy alone where columns stay in their order.
    ///
    /// # Errors
    /// If there is no such strategy or materialisation, memory does not suffice, or there are more groups than keys.
    pub fn measure(
        &self,
        strategy: &str,
        materialization: &str,
        runs: usize,
    ) -> datafusion::error::Result<Rate> {
        let wanted = Grouping {
            strategy: strategy.parse::<GroupStrategy>()?.0,
            materialization: materialization.parse::<MaterializationChoice>()?.0,
        };
        let device = self.device.as_ref();
        let folds: Vec<(Fold, Option<&Column>)> = self
            .values
            .iter()
            .map(|column| (Fold::Sum, Some(column.as_ref())))
            .collect();
        let (ms, (rows, strategy)) = timed(device, runs, || {
            let made = device.aggregate(self.case.rows, &[&self.keys], &folds, wanted)?;
            match made.groups <= self.case.groups {
                true => Ok((made.groups, described(made.by))),
                false => Err(BowtieError::Internal(format!(
                    "{} groups of {:?}",
                    made.groups, self.case
                ))),
            }
        })?;
        Ok(Rate { ms, rows, strategy })
    }
}

fn described(by: Grouping) -> String {
    let strategy = by.strategy.map_or("", |strategy| strategy.name());
    match by.materialization {
        Some(materialization) => format!("{strategy}-{materialization}"),
        None => strategy.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_makes_the_groups() {
        for (zipf, keys) in [
            (0.0, KeysOf::Dense),
            (0.0, KeysOf::Scattered),
            (0.0, KeysOf::Ordered),
            (1.5, KeysOf::Scattered),
        ] {
            let case = GroupCase {
                rows: 20_000,
                groups: 64,
                key_bytes: 8,
                sums: 2,
                zipf,
                keys,
            };
            let rows = GroupRows::new("host", case).unwrap();
            let strategies = crate::ir::strategies::GroupStrategy::ALL.map(|s| s.name());
            for strategy in ["auto"].into_iter().chain(strategies) {
                let rate = rows.measure(strategy, "auto", 1).unwrap();
                assert!(rate.rows == 64 || zipf > 0.0 && rate.rows > 8, "{rate:?}");
            }
        }
    }
}
