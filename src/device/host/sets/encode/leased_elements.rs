//! Elements of lists on the host, with what is leased for them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::row::RowConverter;

use crate::device::budget::{Budget, Lease};
use crate::device::row_width::gathered_bytes;
use crate::error::Result;
use crate::list_sets::elements::{Elements, Lists};

impl Lists {
    /// Bytes that elements of a dictionary take then, and their keys on the way; of others none.
    pub(crate) fn plain_bytes(&self) -> Result<u64> {
        let Some(dictionary) = self.values.as_any_dictionary_opt() else {
            return Ok(0);
        };
        let words = 16 * dictionary.keys().len() as u64;
        if dictionary.values().is_empty() {
            // Its keys are all NULL, and `normalized_keys` takes none of those.
            return Ok(words);
        }
        let keys = dictionary.normalized_keys().into_iter();
        let keys: Vec<u32> = keys.map(|key| key as u32).collect();
        Ok(gathered_bytes(dictionary.values(), &keys)? + words)
    }
}

impl Elements {
    /// The same, with what is leased for it.
    pub(crate) fn leased(
        budget: &Arc<Budget>,
        values: &ArrayRef,
        converter: Option<&RowConverter>,
    ) -> Result<(Self, Lease)> {
        // How long rows of bytes are is seen when they are made.
        let words = values.len() as u64 * 8;
        let known = match converter {
            None => Some(budget.lease(words, "elements of sets")?),
            Some(_) => None,
        };
        let elements = Self::new(values, converter)?;
        let lease = match known {
            Some(lease) => lease,
            None => budget.lease(elements.bytes(), "elements of sets")?,
        };
        Ok((elements, lease))
    }
}
