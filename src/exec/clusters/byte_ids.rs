//! [`ByteIds`]: numbers of byte strings, such as text. Each is stored once, one behind the other.

use std::hash::BuildHasher;

use datafusion::error::Result;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::exec::clusters::numbers::next_number;
use crate::exec::clusters::table_memory::TableMemory;

/// The numbers of byte strings, by a hash table.
#[derive(Debug, Default)]
pub(crate) struct ByteIds {
    hasher: DefaultHashBuilder,
    /// Hashes with numbers: most strings of other hashes are not compared, and none is read again when the table grows.
    table: HashTable<(u64, u32)>,
    bytes: Vec<u8>,
    /// Where the string of each number ends.
    ends: Vec<usize>,
}

/// The string of a number.
fn string<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[begin..ends[number]]
}

impl ByteIds {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The string of a number.
    pub(super) fn value(&self, number: u32) -> &[u8] {
        string(&self.bytes, &self.ends, number)
    }

    /// The number of a string; a new one gets the next number.
    pub(super) fn number(&mut self, value: &[u8], memory: &TableMemory) -> Result<u32> {
        let hash = self.hasher.hash_one(value);
        let (bytes, ends) = (&self.bytes, &self.ends);
        let is_it = |known: &(u64, u32)| known.0 == hash && string(bytes, ends, known.1) == value;
        if let Some((_, number)) = self.table.find(hash, is_it) {
            return Ok(*number);
        }
        let number = next_number(self.len())?;
        memory.table_room(&mut self.table, 1, |known| known.0)?;
        memory.vec_room(&mut self.bytes, value.len())?;
        memory.vec_room(&mut self.ends, 1)?;
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        self.table
            .insert_unique(hash, (hash, number), |known| known.0);
        Ok(number)
    }

    /// Drops what only numbering needs.
    pub(super) fn drop_table(&mut self, memory: &TableMemory) {
        let table = std::mem::take(&mut self.table);
        let bytes = table.allocation_size();
        drop(table);
        memory.dropped(bytes);
    }
}
