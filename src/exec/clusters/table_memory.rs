//! [`TableMemory`]: reserves the tables of a clustering in DataFusion's memory pool before they grow.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use hashbrown::HashTable;

/// The reservation of all tables of one clustering. It has the bytes of their capacities; while a table moves to a larger one, it has
/// both. The memory goes back to the pool when it is dropped.
#[derive(Debug)]
pub(super) struct TableMemory(MemoryReservation);

impl TableMemory {
    pub(super) fn new(consumer: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        Self(MemoryConsumer::new(consumer).register(pool))
    }

    /// Room for `more` items.
    ///
    /// # Errors
    /// The pool's, if it has no memory for them.
    pub(super) fn vec_room<T>(&self, items: &mut Vec<T>, more: usize) -> Result<()> {
        let length = items.len() + more;
        if length <= items.capacity() {
            return Ok(());
        }
        let capacity = length.max(2 * items.capacity());
        let bytes = |capacity: usize| capacity * size_of::<T>();
        self.moved(bytes(items.capacity()), bytes(capacity), || {
            items.reserve_exact(capacity - items.len());
            bytes(items.capacity())
        })
    }

    /// Room for `more` entries.
    ///
    /// # Errors
    /// The pool's, if it has no memory for them.
    pub(super) fn table_room<T>(
        &self,
        table: &mut HashTable<T>,
        more: usize,
        hash: impl Fn(&T) -> u64,
    ) -> Result<()> {
        let length = table.len() + more;
        if length <= table.capacity() {
            return Ok(());
        }
        // A table has a power of two of buckets, of which an eighth stays empty, and a byte for each beside its entry.
        let buckets = (length.max(table.capacity() + 1) * 8 / 7 + 1).next_power_of_two();
        let bytes = buckets.max(4) * (size_of::<T>() + 1) + 64;
        self.moved(table.allocation_size(), bytes, || {
            table.reserve(more, hash);
            table.allocation_size()
        })
    }

    /// Gives back the memory of a table that was dropped.
    pub(super) fn dropped(&self, bytes: usize) {
        self.0.resize(self.0.size().saturating_sub(bytes));
    }

    /// Reserves `new` bytes for a table of `old` ones, which `grow` moves there; it returns the bytes that the table has then.
    fn moved(&self, old: usize, new: usize, grow: impl FnOnce() -> usize) -> Result<()> {
        self.0.try_grow(new)?;
        let now = grow();
        let others = self.0.size().saturating_sub(old + new);
        self.0.resize(others + now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use hashbrown::DefaultHashBuilder;

    use super::*;

    #[test]
    fn capacities_are_reserved() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let memory = TableMemory::new("tables", &pool);
        let hasher = DefaultHashBuilder::default();
        let (mut items, mut table): (Vec<u64>, HashTable<u64>) = (vec![], HashTable::new());
        for item in 0..10_000 {
            memory.vec_room(&mut items, 1).unwrap();
            items.push(item);
            let hash = |item: &u64| hasher.hash_one(item);
            memory.table_room(&mut table, 1, hash).unwrap();
            table.insert_unique(hash(&item), item, hash);
            assert_eq!(
                pool.reserved(),
                8 * items.capacity() + table.allocation_size()
            );
        }
        let bytes = table.allocation_size();
        drop(table);
        memory.dropped(bytes);
        assert_eq!(pool.reserved(), 8 * items.capacity());
        assert!(memory.vec_room(&mut items, 1 << 20).is_err());
        assert_eq!(pool.reserved(), 8 * items.capacity());
        drop(memory);
        assert_eq!(pool.reserved(), 0);
    }
}
