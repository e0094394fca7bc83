//! The dense numbers that ids get, from 0 on.

use datafusion::error::{DataFusionError, Result};

/// Stands for the number of a NULL.
pub(super) const NO_ID: u32 = u32::MAX;

/// The number of a new id behind `known` other ones.
///
/// # Errors
/// If there are no more numbers.
pub(super) fn next_number(known: usize) -> Result<u32> {
    let number = u32::try_from(known).ok().filter(|number| *number != NO_ID);
    number.ok_or_else(|| {
        DataFusionError::Execution(format!(
            "bowtie_clusters numbers at most {NO_ID} distinct ids, and its query has more: give it a part of the pairs"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_before_that_of_nulls() {
        assert_eq!(next_number(0).unwrap(), 0);
        assert_eq!(next_number(NO_ID as usize - 1).unwrap(), NO_ID - 1);
        for known in [NO_ID as usize, NO_ID as usize + 1] {
            let error = next_number(known).unwrap_err().to_string();
            assert!(error.contains("at most 4294967295 distinct ids"), "{error}");
        }
    }
}
