//! [`WordIds`]: numbers of values of up to 64 bits. A value is a word whose order as an unsigned integer is the order of its type.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, Int64Array, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type, UInt64Type};
use datafusion::error::Result;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::exec::clusters::numbers::{NO_ID, next_number};
use crate::exec::clusters::table_memory::TableMemory;
use crate::ir::physical_type::{Stored, TypeRow};

const SIGN: u64 = 1 << 63;
const SIGN_32: u32 = 1 << 31;

/// How values become words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordKind {
    /// Integers, and what is stored as such.
    Signed,
    Unsigned,
    Float32,
    Float64,
}

impl WordKind {
    fn of(data_type: &DataType) -> Option<Self> {
        // Decimals have no cast to integers that keeps their digits.
        if data_type.is_decimal() || matches!(data_type, DataType::Boolean) {
            return None;
        }
        let row = TypeRow::of(data_type);
        match row.stored {
            Stored::F32 => Some(Self::Float32),
            Stored::F64 => Some(Self::Float64),
            _ if !row.is_integer => None,
            stored if stored.sign_bit() == Some(0) => Some(Self::Unsigned),
            _ => Some(Self::Signed),
        }
    }

    /// The word of each value. That of a NULL has no meaning.
    fn words(self, column: &ArrayRef) -> Result<Vec<u64>> {
        Ok(match self {
            Self::Signed => {
                let values = cast(column, &DataType::Int64)?;
                let values = values.as_primitive::<Int64Type>().values().iter();
                values.map(|value| (*value as u64) ^ SIGN).collect()
            }
            Self::Unsigned => {
                let values = cast(column, &DataType::UInt64)?;
                values.as_primitive::<UInt64Type>().values().to_vec()
            }
            Self::Float32 => {
                let values = column.as_primitive::<Float32Type>().values().iter();
                values.map(|value| float_32_word(*value)).collect()
            }
            Self::Float64 => {
                let values = column.as_primitive::<Float64Type>().values().iter();
                values.map(|value| float_64_word(*value)).collect()
            }
        })
    }

    fn values(self, words: impl Iterator<Item = u64>, data_type: &DataType) -> Result<ArrayRef> {
        let values: ArrayRef = match self {
            Self::Signed => {
                let values = words.map(|word| (word ^ SIGN) as i64);
                let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
                match data_type {
                    // Arrow casts no integers of 64 bits to it.
                    DataType::Time32(_) => cast(&values, &DataType::Int32)?,
                    _ => values,
                }
            }
            Self::Unsigned => Arc::new(UInt64Array::from_iter_values(words)),
            Self::Float32 => Arc::new(Float32Array::from_iter_values(
                words.map(|word| float_32(word as u32)),
            )),
            Self::Float64 => Arc::new(Float64Array::from_iter_values(words.map(float_64))),
        };
        Ok(cast(&values, data_type)?)
    }
}

/// The two zeros are one value, as for GROUP BY.
fn float_64_word(value: f64) -> u64 {
    match value.to_bits() {
        bits if bits << 1 == 0 => SIGN,
        bits if bits & SIGN != 0 => !bits,
        bits => bits | SIGN,
    }
}

fn float_64(word: u64) -> f64 {
    f64::from_bits(match word & SIGN {
        0 => !word,
        _ => word ^ SIGN,
    })
}

fn float_32_word(value: f32) -> u64 {
    u64::from(match value.to_bits() {
        bits if bits << 1 == 0 => SIGN_32,
        bits if bits & SIGN_32 != 0 => !bits,
        bits => bits | SIGN_32,
    })
}

fn float_32(word: u32) -> f32 {
    f32::from_bits(match word & SIGN_32 {
        0 => !word,
        _ => word ^ SIGN_32,
    })
}

/// The numbers of words, by a hash table.
#[derive(Debug)]
pub(crate) struct WordIds {
    data_type: DataType,
    kind: WordKind,
    hasher: DefaultHashBuilder,
    table: HashTable<(u64, u32)>,
    /// The word of each number.
    words: Vec<u64>,
}

impl WordIds {
    /// `None`: values of the type are no words.
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        Some(Self {
            data_type: data_type.clone(),
            kind: WordKind::of(data_type)?,
            hasher: DefaultHashBuilder::default(),
            table: HashTable::new(),
            words: vec![],
        })
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn is_less(&self, a: u32, b: u32) -> bool {
        self.words[a as usize] < self.words[b as usize]
    }

    /// Appends the number of each value; new ones get the next numbers.
    pub(super) fn number(
        &mut self,
        column: &ArrayRef,
        memory: &TableMemory,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        let of_column = self.kind.words(column)?;
        let nulls = column.nulls();
        let Self {
            hasher,
            table,
            words,
            ..
        } = self;
        let hasher = &*hasher;
        let hash = |(word, _): &(u64, u32)| hasher.hash_one(*word);
        memory.table_room(table, of_column.len(), hash)?;
        memory.vec_room(words, of_column.len())?;
        for (row, word) in of_column.into_iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                numbers.push(NO_ID);
                continue;
            }
            let found = table.entry(hash(&(word, 0)), |(known, _)| *known == word, hash);
            numbers.push(match found {
                Entry::Occupied(entry) => entry.get().1,
                Entry::Vacant(entry) => {
                    let number = next_number(words.len())?;
                    entry.insert((word, number));
                    words.push(word);
                    number
                }
            });
        }
        Ok(())
    }

    /// Drops what only numbering needs.
    pub(super) fn drop_table(&mut self, memory: &TableMemory) {
        let table = std::mem::take(&mut self.table);
        let bytes = table.allocation_size();
        drop(table);
        memory.dropped(bytes);
    }

    /// The values of numbers.
    pub(super) fn values(&self, numbers: impl Iterator<Item = u32>) -> Result<ArrayRef> {
        let words = numbers.map(|number| self.words[number as usize]);
        self.kind.values(words, &self.data_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_floats_are_in_total_order() {
        let least = f64::MIN_POSITIVE;
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let values = [
            -nan, -infinity, -1.5, -least, 0.0, least, 1.5, infinity, nan,
        ];
        assert!(values.is_sorted_by_key(|value| float_64_word(*value)));
        for value in values {
            let back = float_64(float_64_word(value));
            assert_eq!(back.to_bits(), value.to_bits());
        }
        let least = f32::MIN_POSITIVE;
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let values = [
            -nan, -infinity, -1.5, -least, 0.0, least, 1.5, infinity, nan,
        ];
        assert!(values.is_sorted_by_key(|value| float_32_word(*value)));
        for value in values {
            let back = float_32(float_32_word(value) as u32);
            assert_eq!(back.to_bits(), value.to_bits());
        }
        assert_eq!(float_64(float_64_word(-0.0)).to_bits(), 0);
        assert_eq!(float_32(float_32_word(-0.0) as u32).to_bits(), 0);
    }
}
