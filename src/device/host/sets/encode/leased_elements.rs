//! Elements of lists on the host, with their reservations.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::row::RowConverter;

use crate::device::budget::{Budget, Lease};
use crate::device::row_width::gathered_bytes;
use crate::error::Result;
use crate::list_sets::elements::{Elements, Lists};

impl Lists {
    /// Bytes to decode elements from a dictionary, including their keys meanwhile; 0 for other elements.
    pub(crate) fn plain_bytes(&self) -> Result<u64> {
        let Some(dictionary) = self.values.as_any_dictionary_opt() else {
            return Ok(0);
        };
        let words = 16 * dictionary.keys().len() as u64;
        if dictionary.values().is_empty() {
            // All keys are NULL, and `normalized_keys` fails for an empty dictionary.
            return Ok(words);
        }
        let keys = dictionary.normalized_keys().into_iter();
        let keys: Vec<u32> = keys.map(|key| key as u32).collect();
        Ok(gathered_bytes(dictionary.values(), &keys)? + words)
    }
}

impl Elements {
    /// As [`Elements::new`], with a reservation.
    pub(crate) fn leased(
        budget: &Arc<Budget>,
        values: &ArrayRef,
        converter: Option<&RowConverter>,
    ) -> Result<(Self, Lease)> {
        // The length of row keys is known only after conversion.
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
