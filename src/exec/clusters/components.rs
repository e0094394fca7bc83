//! [`Components`] takes pairs, batch by batch, and makes [`Clusters`] of them: each id with the least one of its component.

use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::Result;

use crate::exec::clusters::ids::Ids;
use crate::exec::clusters::numbers::NO_ID;
use crate::exec::clusters::table_memory::TableMemory;
use crate::exec::clusters::union_find::UnionFind;

/// The connected components of the pairs so far.
#[derive(Debug)]
pub(super) struct Components {
    ids: Ids,
    sets: UnionFind,
    memory: TableMemory,
    /// The numbers of a batch's ids, left and right.
    numbers: [Vec<u32>; 2],
}

impl Components {
    pub(super) fn try_new(data_type: &DataType, memory: TableMemory) -> Result<Self> {
        Ok(Self {
            ids: Ids::try_new(data_type)?,
            sets: UnionFind::default(),
            memory,
            numbers: Default::default(),
        })
    }

    /// Adds the pairs of two columns. One with a NULL adds its other id alone.
    ///
    /// # Errors
    /// The memory pool's, and if there are too many distinct ids.
    pub(super) fn add(&mut self, left: &ArrayRef, right: &ArrayRef) -> Result<()> {
        for (column, numbers) in [left, right].into_iter().zip(&mut self.numbers) {
            numbers.clear();
            self.ids.number(column, &self.memory, numbers)?;
        }
        self.sets.extend_to(self.ids.len(), &self.memory)?;
        let [left, right] = &self.numbers;
        for (left, right) in left.iter().zip(right) {
            if *left != NO_ID && *right != NO_ID {
                self.sets.union(*left, *right);
            }
        }
        Ok(())
    }

    /// Ends the pairs. It may take a second for a hundred million ids.
    ///
    /// # Errors
    /// The memory pool's.
    pub(super) fn finish(self) -> Result<Clusters> {
        let Self {
            mut ids,
            sets,
            memory,
            ..
        } = self;
        ids.drop_table(&memory);
        let roots = sets.into_roots();
        let mut least = vec![];
        memory.vec_room(&mut least, roots.len())?;
        least.extend(0..roots.len() as u32);
        let mut count = 0;
        for (id, root) in (0..).zip(&roots) {
            count += usize::from(id == *root);
            let least: &mut u32 = &mut least[*root as usize];
            if ids.is_less(id, *least) {
                *least = id;
            }
        }
        Ok(Clusters {
            ids,
            roots,
            least,
            count,
            _memory: memory,
        })
    }
}

/// The ids, each with its cluster.
#[derive(Debug)]
pub(crate) struct Clusters {
    ids: Ids,
    /// The root of each id's component.
    roots: Vec<u32>,
    /// The least id of each component, at its root.
    least: Vec<u32>,
    count: usize,
    _memory: TableMemory,
}

impl Clusters {
    /// How many ids there are.
    pub(super) fn ids(&self) -> usize {
        self.roots.len()
    }

    /// How many clusters there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A range of the ids with their clusters: of these two columns, those that `columns` has.
    pub(super) fn batch(
        &self,
        range: Range<usize>,
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let columns = columns.iter().map(|column| match column {
            0 => self.ids.values(range.start as u32..range.end as u32),
            _ => {
                let roots = self.roots[range.clone()].iter();
                let clusters = roots.map(|root| self.least[*root as usize]);
                self.ids.values(clusters)
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(range.len()));
        Ok(RecordBatch::try_new_with_options(
            schema.clone(),
            columns,
            &rows,
        )?)
    }
}
