//! One array for one piece of memory, however often Python hands it over.
//!
//! A device finds its resident columns by the identity of the Arrow arrays. A frame that is registered again is imported again, without a
//! copy, as other arrays over the same buffers: here they are replaced by those of the first time, if these still exist.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::{Array, ArrayData, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use parking_lot::Mutex;

use crate::valid_buffers::check;

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

/// The array that has the same memory, if one was imported before and still exists. Others are checked first.
///
/// # Errors
/// If the array is not valid.
pub fn interned(name: &str, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let memory = Memory::of(array.as_ref());
    let known = |known: &Known| known.arrays.get(&memory).and_then(Weak::upgrade);
    if let Some(same) = known(&KNOWN.lock()) {
        return Ok(same);
    }
    check(name, array.as_ref())?;
    let mut all = KNOWN.lock();
    // Another thread may have been sooner.
    if let Some(same) = known(&all) {
        return Ok(same);
    }
    if all.arrays.len() >= all.full {
        all.arrays.retain(|_, array| array.strong_count() > 0);
        all.full = 1024.max(2 * all.arrays.len());
    }
    all.arrays.insert(memory, Arc::downgrade(array));
    Ok(Arc::clone(array))
}
