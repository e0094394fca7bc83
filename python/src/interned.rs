//! One array for one piece of memory, however often Python hands it over.
//!
//! A device finds its resident columns by the identity of the Arrow arrays. A frame that is registered again is imported again, without a
//! copy, as other arrays over the same buffers: here they are replaced by those of the first time, if these still exist.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::{Array, ArrayData, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use parking_lot::Mutex;

/// Where all buffers of an array are, and which part of them it has.
///
/// As long as the array exists, no other memory has these addresses: so an array with an equal key has the same values. That holds for
/// producers that never write to memory which they have handed over.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Memory {
    data_type: DataType,
    words: Vec<usize>,
}

impl Memory {
    fn of(array: &dyn Array) -> Self {
        let mut words = vec![];
        add(&array.to_data(), &mut words);
        Self {
            data_type: array.data_type().clone(),
            words,
        }
    }
}

fn add(data: &ArrayData, words: &mut Vec<usize>) {
    let mut add_buffer = |buffer: &Buffer| words.extend([buffer.as_ptr().addr(), buffer.len()]);
    data.buffers().iter().for_each(&mut add_buffer);
    if let Some(nulls) = data.nulls() {
        add_buffer(nulls.buffer());
        words.push(nulls.offset());
    }
    words.extend([
        data.len(),
        data.offset(),
        data.buffers().len(),
        usize::from(data.nulls().is_some()),
    ]);
    data.child_data().iter().for_each(|child| add(child, words));
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Known {
    arrays: HashMap<Memory, Weak<dyn Array>>,
    /// At how many arrays those that are gone are removed next.
    full: usize,
}

/// The array that has the same memory, if one was imported before and still exists.
pub fn interned(array: ArrayRef) -> ArrayRef {
    let memory = Memory::of(&*array);
    let mut known = KNOWN.lock();
    if let Some(same) = known.arrays.get(&memory).and_then(Weak::upgrade) {
        return same;
    }
    if known.arrays.len() >= known.full {
        known.arrays.retain(|_, array| array.strong_count() > 0);
        known.full = 1024.max(2 * known.arrays.len());
    }
    known.arrays.insert(memory, Arc::downgrade(&array));
    array
}
