//! [`SpilledGroups`]: partial states of groups in files by the hashes of their keys. All states of a group are in the
//! same file, so the groups of a file are merged and finished without the others.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::execution::spill_file::SpillFile;

use crate::error::Result;
use crate::exec::memory::spill::{SPILLED_ROWS, SpillWriter, Spilling};

/// The bits of the hash that choose a file at each level. A file that does not fit is spilled again by the next bits.
const BITS: u32 = 5;
const FILES: usize = 1 << BITS;
/// The number of levels.
const LEVELS: u32 = 6;

/// The files of a level while they are written.
pub(crate) struct SpilledGroups {
    spilling: Spilling,
    /// Keys, then the states of each aggregate.
    schema: SchemaRef,
    keys: usize,
    files: Vec<Option<SpillWriter>>,
    level: u32,
}

/// A finished file. Its groups are in no other file of its level.
pub(crate) struct GroupFile {
    file: Arc<dyn SpillFile>,
    level: u32,
}

impl SpilledGroups {
    pub(crate) fn new(spilling: Spilling, schema: SchemaRef, keys: usize, level: u32) -> Self {
        Self {
            spilling,
            schema,
            keys,
            files: (0..FILES).map(|_| None).collect(),
            level,
        }
    }

    /// Writes groups, as columns of `schema`, to their files.
    pub(crate) fn write(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let mut hashes = vec![0; batch.num_rows()];
        let keys = &batch.columns()[..self.keys];
        create_hashes(keys, &RandomState::with_seed(0), &mut hashes)?;
        let mut rows: Vec<Vec<u32>> = vec![vec![]; FILES];
        for (row, hash) in hashes.iter().enumerate() {
            let of_level = hash >> (64 - BITS * (self.level + 1));
            rows[of_level as usize % FILES].push(row as u32);
        }
        for (file, rows) in self.files.iter_mut().zip(rows) {
            for rows in rows.chunks(SPILLED_ROWS) {
                let rows = UInt32Array::from(rows.to_vec());
                let part = take_record_batch(&batch, &rows)?;
                let writer = match file {
                    Some(writer) => writer,
                    None => file.insert(self.spilling.create(&self.schema, "BowtieAggregate")?),
                };
                writer.append(&part)?;
            }
        }
        Ok(())
    }

    /// Finishes all files that were written to.
    pub(crate) fn finish(self) -> Result<Vec<GroupFile>> {
        let mut files = vec![];
        for writer in self.files.into_iter().flatten() {
            if let Some(file) = writer.finish()? {
                files.push(GroupFile {
                    file,
                    level: self.level,
                });
            }
        }
        Ok(files)
    }
}

impl GroupFile {
    /// The batches of the file.
    pub(crate) fn batches(
        &self,
        spilling: &Spilling,
        schema: &SchemaRef,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let batches = spilling.read(schema, &self.file)?;
        Ok(batches.map(|batch| Ok(batch?)))
    }

    /// The level at which the groups are spilled again; `None` after the last one.
    pub(crate) fn next_level(&self) -> Option<u32> {
        (self.level + 1 < LEVELS).then_some(self.level + 1)
    }
}
