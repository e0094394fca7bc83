//! Hash tables from elements to numbers. The number of distinct elements is not known beforehand, so memory is reserved
//! as the tables grow.

use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use crate::device::budget::{Budget, Lease};
use crate::error::Result;

/// The reservations of a growing table.
#[derive(Debug)]
struct Growing {
    budget: Arc<Budget>,
    leases: Vec<Lease>,
    leased: u64,
}

impl Growing {
    fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            leases: vec![],
            leased: 0,
        }
    }

    /// Reserves more until `bytes` are reserved in all.
    fn at_least(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.leased {
            let more = bytes - self.leased;
            self.leases
                .push(self.budget.lease(more, "elements of sets")?);
            self.leased = bytes;
        }
        Ok(())
    }
}

/// The bytes of a full table that is about to double: both tables exist while entries move.
fn doubled(capacity: usize, entry: u64) -> u64 {
    3 * (capacity as u64 + 4) * 8 / 7 * (entry + 1)
}

/// The numbers of words.
#[derive(Debug)]
pub(crate) struct WordNumbers {
    numbers: HashMap<u64, u32>,
    held: Growing,
}

impl WordNumbers {
    const ENTRY: u64 = size_of::<(u64, u32)>() as u64;

    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            numbers: HashMap::new(),
            held: Growing::new(budget),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn get(&self, word: u64) -> Option<u32> {
        self.numbers.get(&word).copied()
    }

    /// The number of `word`; a new word gets `fresh`.
    pub(crate) fn number(&mut self, word: u64, fresh: u32) -> Result<u32> {
        let capacity = self.numbers.capacity();
        if self.numbers.len() == capacity {
            self.held.at_least(doubled(capacity, Self::ENTRY))?;
        }
        Ok(*self.numbers.entry(word).or_insert(fresh))
    }
}

/// The numbers of elements in row format.
#[derive(Debug)]
pub(crate) struct RowNumbers {
    numbers: HashMap<Vec<u8>, u32>,
    /// Bytes reserved for entries.
    table: u64,
    /// Bytes of the keys, and bytes reserved for keys.
    keys: u64,
    reserved_key_bytes: u64,
    held: Growing,
}

impl RowNumbers {
    const ENTRY: u64 = size_of::<(Vec<u8>, u32)>() as u64;
    /// The allocator's overhead for a key.
    const KEY: u64 = 16;
    /// The most bytes that are reserved for keys in advance.
    const AHEAD: u64 = 1 << 20;

    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            numbers: HashMap::new(),
            table: 0,
            keys: 0,
            reserved_key_bytes: 0,
            held: Growing::new(budget),
        }
    }

    pub(crate) fn get(&self, row: &[u8]) -> Option<u32> {
        self.numbers.get(row).copied()
    }

    /// The number of `row`; a new row gets the next number.
    pub(crate) fn number(&mut self, row: &[u8]) -> Result<u32> {
        let (fresh, capacity) = (self.numbers.len() as u32, self.numbers.capacity());
        if self.numbers.len() == capacity {
            self.table = doubled(capacity, Self::ENTRY);
            self.held.at_least(self.table + self.reserved_key_bytes)?;
        }
        match self.numbers.entry_ref(row) {
            EntryRef::Occupied(entry) => Ok(*entry.get()),
            EntryRef::Vacant(entry) => {
                self.keys += row.len() as u64 + Self::KEY;
                if self.keys > self.reserved_key_bytes {
                    self.reserved_key_bytes = self.keys + (self.keys / 4).min(Self::AHEAD);
                    self.held.at_least(self.table + self.reserved_key_bytes)?;
                }
                entry.insert(fresh);
                Ok(fresh)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_leased_before() {
        let budget = Budget::new(u64::MAX);
        let (mut words, mut rows) = (WordNumbers::new(&budget), RowNumbers::new(&budget));
        for i in 0..1_000u64 {
            assert_eq!(words.number(i * 7, i as u32).unwrap(), i as u32);
            assert_eq!(words.number(i * 7, 9).unwrap(), i as u32);
            let text = format!("{i:0>100}");
            assert_eq!(rows.number(text.as_bytes()).unwrap(), i as u32);
            assert_eq!(rows.number(text.as_bytes()).unwrap(), i as u32);
        }
        assert_eq!((words.get(14), words.get(15)), (Some(2), None));
        // For entries, and for keys with their entries.
        assert!(words.held.leased >= 17_000 && words.held.leased < 100_000);
        assert!(rows.held.leased >= 116_000 + 33_000 && rows.held.leased < 400_000);
        let in_use = budget.in_use();
        assert_eq!(in_use, words.held.leased + rows.held.leased);
        drop((words, rows));
        assert_eq!(budget.in_use(), 0);

        let mut few = WordNumbers::new(&Budget::new(10_000));
        let refused = (0..).find_map(|i| few.number(i, i as u32).err());
        assert!(refused.is_some_and(|error| error.is_divisible()));
    }
}
