//! How many probe rows have a partner, by a sample: whether the columns of both sides had better be transformed (\[W\] section 4.1).
//!
//! The sampled keys, each once, become a small hash table, in which the build side's keys are looked up: one read of these, before any
//! column is moved, and the table stays in the cache. The sampled keys that are found are written by the kernel that joins.

use std::collections::HashMap;

use super::CudaDevice;
use super::equi_keys::{EquiKeys, Keying, Width};
use super::equi_pairs::Output;
use super::queue::Arg;
use crate::device::Device;
use crate::device::buffer::Column;
use crate::error::Result;
use crate::spec::Materialization;

const SAMPLES: usize = 1 << 12;

/// Build rows from which a join takes so long that the sample is little beside it: some ten small launches and copies, and a read of
/// the keys, 0.2 ms together, where the join takes 2 ms and more.
pub(super) const LEAST_ROWS: usize = 1 << 23;

/// Transformed columns pay from so many matches on.
const LEAST_SHARE: f64 = 0.25;

/// How columns come to the pairs of probe rows of which this share has a partner, if that is known.
pub(super) fn materialization(share: Option<f64>) -> Materialization {
    match share {
        Some(share) if share < LEAST_SHARE => Materialization::Gfur,
        _ => Materialization::Gftr,
    }
}

impl CudaDevice {
    /// The share of probe rows whose key is among `keys`, by a sample of `probe`; `None` where build rows share keys.
    pub(super) fn matching_share(
        &self,
        keys: &EquiKeys<'_>,
        keying: &Keying,
        probe: &[&Column],
    ) -> Result<Option<f64>> {
        let queue = &self.queue;
        let rows = probe.first().map_or(0, |column| column.rows());
        let samples = rows.min(SAMPLES);
        if samples == 0 || keys.rows == 0 {
            return Ok(None);
        }
        let strided = queue.strided(rows, samples)?;
        let columns = probe.iter().map(|column| self.gather(column, &strided));
        let columns: Vec<Column> = columns.collect::<Result<_>>()?;
        let sampled = self.equi_keys_in(keying, &columns.iter().collect::<Vec<_>>())?;

        let width = sampled.width;
        let bytes = width.bytes();
        // A NULL finds nothing.
        let (words, count) = match queue.kept_keys(&sampled)? {
            Some((kept, words)) => (words, kept.len()),
            None => {
                let words = queue.copy_of(sampled.words()?, samples * bytes, "a sample")?;
                (words, samples)
            }
        };
        if count == 0 {
            return Ok(Some(0.0));
        }
        let mut of_samples = vec![0; count * bytes];
        queue.read_few(&mut of_samples, &words, 0)?;
        let mut times: HashMap<&[u8], usize> = HashMap::new();
        for word in of_samples.chunks_exact(bytes) {
            *times.entry(word).or_default() += 1;
        }
        let unique: Vec<u8> = times.keys().copied().flatten().copied().collect();
        let unique = queue.send(&unique, "a sample")?;
        let unique = EquiKeys::made(unique, width, times.len());
        let (table, _) = queue.hash_table(&unique)?;

        let output = Output {
            keys: Some(queue.alloc(unique.rows * bytes, "a sample")?),
            build: vec![],
            probe: vec![],
            room: unique.rows,
            state: queue.zeroed(16, "a sample")?,
        };
        let kernel = match width {
            Width::Four => "equi_table_join_u32",
            Width::Eight => "equi_table_join_u64",
        };
        let arguments = [
            Arg::from(&table.slots),
            table.mask.into(),
            (&table.keys).into(),
        ];
        queue.join_by_index(kernel, &arguments, keys, (vec![], vec![]), &output)?;
        let found = queue.read_word(&output.state, 0)? as usize;
        // More build rows than sampled keys were found: some share a key.
        if queue.read_word32(&output.state, 2)? != 0 || found > unique.rows {
            return Ok(None);
        }
        let mut of_found = vec![0; found * bytes];
        if let Some(keys) = output.keys.as_ref().filter(|_| found > 0) {
            queue.read_few(&mut of_found, keys, 0)?;
        }
        let found = of_found.chunks_exact(bytes);
        let matching: usize = found.filter_map(|word| times.get(word)).sum();
        Ok(Some(matching as f64 / samples as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_transformed_where_many_rows_match() {
        assert_eq!(materialization(None), Materialization::Gftr);
        assert_eq!(materialization(Some(0.03)), Materialization::Gfur);
        assert_eq!(materialization(Some(0.25)), Materialization::Gftr);
        assert_eq!(materialization(Some(1.0)), Materialization::Gftr);
    }
}
