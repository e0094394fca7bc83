//! [`TextLists`]: a column of lists of text that grows element by element, without memory of its own for any of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::common::exec_err;
use datafusion::error::Result;

/// The type of the lists.
pub(crate) fn text_list() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

/// Elements are one behind the other in `text`. None is empty, so there are at most as many as there are bytes.
pub(crate) struct TextLists {
    function: &'static str,
    text: Vec<u8>,
    /// Where each element begins, and where the last one ends.
    elements: Vec<i32>,
    /// The first element of each list, and the one behind the last list.
    lists: Vec<i32>,
}

impl TextLists {
    /// `function` is who makes the lists, for errors.
    pub(crate) fn new(function: &'static str, rows: usize) -> Self {
        let mut lists = Vec::with_capacity(rows + 1);
        lists.push(0);
        Self {
            function,
            text: vec![],
            elements: vec![0],
            lists,
        }
    }

    /// Checks that offsets can count `bytes` more.
    #[inline]
    fn check(&self, bytes: usize) -> Result<()> {
        match self.text.len().saturating_add(bytes) <= i32::MAX as usize {
            true => Ok(()),
            false => exec_err!(
                "{} makes more than {} bytes of text of one batch: lower datafusion.execution.batch_size",
                self.function,
                i32::MAX
            ),
        }
    }

    /// Adds an element to the list that is open. It is not empty.
    #[inline]
    pub(crate) fn push(&mut self, element: &str) -> Result<()> {
        debug_assert!(!element.is_empty());
        self.check(element.len())?;
        self.text.extend_from_slice(element.as_bytes());
        self.elements.push(self.text.len() as i32);
        Ok(())
    }

    /// Adds every window of `length` bytes of an ASCII text as an element.
    pub(crate) fn push_windows(&mut self, text: &str, length: usize) -> Result<()> {
        debug_assert!(text.is_ascii() && (1..=text.len()).contains(&length));
        let count = text.len() - length + 1;
        self.check(count.saturating_mul(length))?;
        let begin = self.text.len();
        self.text.resize(begin + count * length, 0);
        let (to, from) = (&mut self.text[begin..], text.as_bytes());
        // A window of constant length is copied without a call.
        match length {
            1 => to.copy_from_slice(from),
            2 => copy_windows(from, 2, to),
            3 => copy_windows(from, 3, to),
            4 => copy_windows(from, 4, to),
            5 => copy_windows(from, 5, to),
            6 => copy_windows(from, 6, to),
            length => copy_windows(from, length, to),
        }
        let ends = (1..=count).map(|i| (begin + i * length) as i32);
        self.elements.extend(ends);
        Ok(())
    }

    /// Ends the list of a row. A row that is NULL has one without elements.
    #[inline]
    pub(crate) fn end_list(&mut self) {
        self.lists.push((self.elements.len() - 1) as i32);
    }

    pub(crate) fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let elements = OffsetBuffer::<i32>::new(self.elements.into());
        let values = StringArray::try_new(elements, Buffer::from_vec(self.text), None)?;
        let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let lists = OffsetBuffer::<i32>::new(self.lists.into());
        Ok(Arc::new(ListArray::try_new(
            field,
            lists,
            Arc::new(values),
            nulls,
        )?))
    }
}

#[inline(always)]
fn copy_windows(from: &[u8], length: usize, to: &mut [u8]) {
    for (to, window) in to.chunks_exact_mut(length).zip(from.windows(length)) {
        to.copy_from_slice(window);
    }
}
