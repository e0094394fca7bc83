//! Rates of equi-joins.

use std::sync::Arc;

use rayon::prelude::*;

use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::results::Paired;
use crate::device::presorted::PresortedKeys;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::strategies::EquiStrategy;
use crate::options::{EquiJoinStrategy, MaterializationChoice};
use crate::rates::{Rate, Zipf, fraction, numbers, open, permuted, scattered, timed, with_nulls};

/// An equi-join of sweeps after \[W\] 5.1: unique build keys in random order, of which a share is probed; or of sorted
/// relations, as in \[D\].
#[derive(Debug, Clone, Copy)]
pub struct EquiCase {
    /// The rows of the build side, a power of two.
    pub build_rows: usize,
    /// The rows of the probe side.
    pub probe_rows: usize,
    /// Payload columns of the build side.
    pub build_columns: usize,
    /// Payload columns of the probe side.
    pub probe_columns: usize,
    /// Of the payload columns of each side, those with NULLs, in every seventh row.
    pub nullable: usize,
    /// Bytes of a key: 4 or 8.
    pub key_bytes: usize,
    /// Bytes of a payload value: 4 or 8.
    pub payload_bytes: usize,
    /// The fraction of probe rows with a match.
    pub match_ratio: f64,
    /// The exponent of Zipf's distribution of the probe keys; 0: uniform.
    pub zipf: f64,
    /// Build rows of each key.
    pub duplicates: usize,
    /// Whether both sides are sorted by their keys, which are not skewed then.
    pub ascending: bool,
}

/// The columns of a case on a device, for repeated joins.
#[derive(Debug)]
pub struct EquiSides {
    case: EquiCase,
    device: Arc<dyn Device>,
    build: Vec<Arc<Column>>,
    probe: Vec<Arc<Column>>,
    expected: usize,
}

impl EquiCase {
    fn build_key(&self, i: u64) -> u64 {
        let duplicates = self.duplicates.max(1) as u64;
        match self.ascending {
            true => i / duplicates * 2,
            false => permuted(i, self.build_rows as u64) / duplicates,
        }
    }

    fn matches(&self, i: u64) -> bool {
        fraction(i ^ 0x5555_5555) < self.match_ratio
    }

    fn probe_key(&self, i: u64) -> u64 {
        let keys = (self.build_rows / self.duplicates.max(1)) as u64;
        if self.ascending {
            // Keys without a match are between the build side's keys.
            let number = i * keys / self.probe_rows as u64;
            return number * 2 + u64::from(!self.matches(number));
        }
        if !self.matches(i) {
            return keys + scattered(i) % keys;
        }
        match self.zipf {
            0.0 => scattered(i) % keys,
            // Frequent keys are anywhere in the range.
            zipf => permuted(Zipf::new(keys, zipf).at(i), keys),
        }
    }

    /// The rows of both sides.
    pub fn input_rows(&self) -> usize {
        self.build_rows + self.probe_rows
    }

    /// The bytes that must be read, and written for `pairs` matches: each input and output value once.
    pub fn least_bytes(&self, pairs: usize) -> usize {
        let (key, value) = (self.key_bytes, self.payload_bytes);
        self.build_rows * (key + self.build_columns * value)
            + self.probe_rows * (key + self.probe_columns * value)
            + pairs * (key + (self.build_columns + self.probe_columns) * value)
    }
}

/// After the name of a strategy whose matches were ranges, with columns gathered by row ids, whatever materialisation
/// was asked for.
pub const BY_RANGES: &str = " by ranges";

impl EquiSides {
    /// Generates the columns of a case, and uploads them to a device, named as in `bowtie.device`.
    ///
    /// # Errors
    /// If there is no such device, or not enough memory.
    pub fn new(device: &str, case: EquiCase) -> datafusion::error::Result<Self> {
        let device = open(device)?;
        let side = |rows: usize, columns: usize, key: &(dyn Fn(u64) -> u64 + Sync)| {
            let keys = numbers(rows, case.key_bytes, key);
            let values = (0..columns).map(|c| {
                let values = numbers(rows, case.payload_bytes, |i| {
                    scattered(i ^ (c as u64) << 40)
                });
                match c < case.nullable {
                    true => with_nulls(&values, 7),
                    false => Ok(values),
                }
            });
            std::iter::once(Ok(keys))
                .chain(values)
                .map(|column| device.upload(&[column?]))
                .collect::<Result<Vec<_>>>()
        };
        let keys = (case.build_rows / case.duplicates.max(1)) as u64;
        let matched = (0..case.probe_rows as u64).into_par_iter();
        let matched = matched.filter(|i| match case.ascending {
            true => case.probe_key(*i).is_multiple_of(2),
            false => case.probe_key(*i) < keys,
        });
        let matched = matched.count();
        Ok(Self {
            build: side(case.build_rows, case.build_columns, &|i| case.build_key(i))?,
            probe: side(case.probe_rows, case.probe_columns, &|i| case.probe_key(i))?,
            expected: matched * case.duplicates.max(1),
            case,
            device,
        })
    }

    /// Joins `runs` times by a strategy and a materialisation, named as in the options. The result names what ran:
    /// duplicate build keys have matches by ranges, except with sort-merge.
    ///
    /// # Errors
    /// If there is no such strategy or materialisation, memory does not suffice, or the number of matches is wrong.
    pub fn measure(
        &self,
        strategy: &str,
        materialization: &str,
        runs: usize,
    ) -> datafusion::error::Result<Rate> {
        let strategy = strategy.parse::<EquiJoinStrategy>()?;
        let materialization = materialization.parse::<MaterializationChoice>()?;
        let (ms, strategy) = timed(self.device.as_ref(), runs, || {
            let (joined, by) = self.join(strategy, materialization)?;
            match joined == self.expected {
                true => Ok(by),
                false => Err(BowtieError::Internal(format!(
                    "{by} returned {joined} matches, not {}: {:?}",
                    self.expected, self.case
                ))),
            }
        })?;
        Ok(Rate {
            ms,
            rows: self.expected,
            strategy,
        })
    }

    /// The number of matches, and the strategy that ran.
    fn join(
        &self,
        strategy: EquiJoinStrategy,
        materialization: MaterializationChoice,
    ) -> Result<(usize, String)> {
        let device = self.device.as_ref();
        let build: Vec<&Column> = self.build.iter().map(AsRef::as_ref).collect();
        let probe: Vec<&Column> = self.probe.iter().map(AsRef::as_ref).collect();
        let (keys, of_build) = build.split_at(1);
        if let EquiJoinStrategy(None | Some(EquiStrategy::SortMerge)) = strategy {
            let keys = PresortedKeys {
                build: build[0],
                probe: probe[0],
                known: false,
            };
            let joined = device.merge_join(keys, materialization.0, of_build, &probe)?;
            if let Some(joined) = joined {
                return Ok((joined.rows, "merge".to_string()));
            }
        }
        // As the join node does: if build keys are not unique, by sort-merge unless a strategy is given.
        let ways = match strategy.0 {
            None => vec![None, Some(EquiStrategy::SortMerge)],
            named => vec![named],
        };
        for way in ways {
            let first = FirstProbe {
                keys: &probe[..1],
                payload: &probe,
            };
            let made =
                device.equi_build(keys, false, way, of_build, materialization.0, Some(first))?;
            if let Some(made) = made
                && let Paired::All(joined) =
                    device.equi_join(&made, of_build, &probe[..1], &probe)?
            {
                return Ok((joined.rows, made.strategy.to_string()));
            }
        }
        self.join_by_ranges(strategy, &build, &probe)
    }

    /// Finds ranges, and gathers columns by row ids.
    fn join_by_ranges(
        &self,
        strategy: EquiJoinStrategy,
        build: &[&Column],
        probe: &[&Column],
    ) -> Result<(usize, String)> {
        let device = self.device.as_ref();
        let index = device.equi_index(&build[..1], false, strategy.0)?;
        let (rows, ranges) = device.equi_search(&index, &probe[..1])?;
        let matches = crate::device::data::matches::Matches {
            build: &index.rows,
            probe: &rows,
            ranges: &ranges,
            tests: &[],
            program: None,
        };
        let offsets = device.scan(&device.count_matches(matches, false)?.counts)?;
        let total = device.total(&offsets)? as usize;
        let pairs = device.expand(matches, &offsets, 0, total)?;
        for column in &build[1..] {
            device.gather(column, &pairs.build)?;
        }
        for column in probe {
            device.gather(column, &pairs.probe)?;
        }
        Ok((total, format!("{}{BY_RANGES}", index.strategy)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_makes_the_pairs() {
        let case = EquiCase {
            build_rows: 1 << 10,
            probe_rows: 3_000,
            build_columns: 2,
            probe_columns: 1,
            nullable: 0,
            key_bytes: 4,
            payload_bytes: 8,
            match_ratio: 0.4,
            zipf: 0.0,
            duplicates: 1,
            ascending: false,
        };
        for case in [
            case,
            EquiCase {
                zipf: 1.5,
                key_bytes: 8,
                ..case
            },
            EquiCase {
                duplicates: 4,
                zipf: 0.5,
                match_ratio: 1.0,
                ..case
            },
            EquiCase {
                ascending: true,
                nullable: 1,
                ..case
            },
            EquiCase {
                nullable: 2,
                ..case
            },
        ] {
            let sides = EquiSides::new("host", case).unwrap();
            for strategy in ["auto", "direct", "hash", "partitioned_hash", "sort_merge"] {
                for materialization in ["gfur", "gftr"] {
                    let rate = sides.measure(strategy, materialization, 1).unwrap();
                    let ran = rate.strategy.trim_end_matches(BY_RANGES);
                    assert!(strategy == "auto" || ran == strategy);
                    assert!(rate.rows > 0 && rate.rows < case.probe_rows * 5);
                }
            }
        }
    }
}
