//! [`Dictionary`]: numbers for elements of any type; equal elements have equal numbers.

use std::sync::Arc;

use arrow::row::RowConverter;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::element_ids::{RowNumbers, WordNumbers};
use crate::error::Result;
use crate::list_sets::elements::{Element, Elements};

/// Words whose values span at most `DENSE` times their count plus [`FEW_NUMBERS`] are numbered by their distance from
/// the least. The counts and ranks of unused numbers then need less memory than entries of a hash table.
const DENSE: u64 = 2;
const FEW_NUMBERS: u64 = 1 << 10;
const MOST_NUMBERS: u64 = 1 << 31;

/// The numbers of one side's elements.
#[derive(Debug)]
pub(crate) enum Dictionary {
    /// A word's number is its distance from the least word. NULL has the number after the greatest.
    Dense { least: u64, null: u32 },
    Words {
        numbers: WordNumbers,
        null: Option<u32>,
    },
    Rows {
        converter: RowConverter,
        numbers: RowNumbers,
    },
}

impl Dictionary {
    /// Numbers `values` elements. Returns the dictionary and the number of each.
    pub(crate) fn of(
        budget: &Arc<Budget>,
        elements: &Elements,
        values: usize,
        converter: Option<RowConverter>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<(Self, Vec<u32>)> {
        let mut pace = Pace::new(check_cancelled);
        Ok(match (elements, converter) {
            (Elements::Rows(rows), Some(converter)) => {
                let mut numbers = RowNumbers::new(budget);
                let mut of_values = Vec::with_capacity(values);
                for row in rows.iter() {
                    of_values.push(numbers.number(row.as_ref())?);
                    pace.step(1)?;
                }
                (Self::Rows { converter, numbers }, of_values)
            }
            (elements, _) => {
                let words = || (0..values).filter_map(|at| word(elements.get(at)));
                let least = words().min().unwrap_or(0);
                let span = words().max().map_or(0, |most| most - least);
                if span < (DENSE * values as u64 + FEW_NUMBERS).min(MOST_NUMBERS) {
                    let null = span as u32 + 1;
                    let dense = Self::Dense { least, null };
                    let number = |at: usize| match word(elements.get(at)) {
                        Some(word) => (word - least) as u32,
                        None => null,
                    };
                    return Ok((dense, (0..values).into_par_iter().map(number).collect()));
                }
                let mut numbers = WordNumbers::new(budget);
                let mut null = None;
                let mut of_values = Vec::with_capacity(values);
                for at in 0..values {
                    let fresh = numbers.len() as u32 + u32::from(null.is_some());
                    of_values.push(match word(elements.get(at)) {
                        Some(word) => numbers.number(word, fresh)?,
                        None => *null.get_or_insert(fresh),
                    });
                    pace.step(1)?;
                }
                (Self::Words { numbers, null }, of_values)
            }
        })
    }

    /// The converter of elements to row format; `None` for words.
    pub(crate) fn converter(&self) -> Option<&RowConverter> {
        match self {
            Self::Rows { converter, .. } => Some(converter),
            Self::Dense { .. } | Self::Words { .. } => None,
        }
    }

    /// The number of an element; `None` if the side that defines the numbers lacks it.
    pub(crate) fn find(&self, element: Element<'_>) -> Option<u32> {
        match (self, element) {
            (Self::Dense { least, null }, Element::Word(Some(word))) => {
                let distance = word.checked_sub(*least)?;
                (distance < u64::from(*null)).then_some(distance as u32)
            }
            (Self::Dense { null, .. }, Element::Word(None)) => Some(*null),
            (Self::Words { numbers, .. }, Element::Word(Some(word))) => numbers.get(word),
            (Self::Words { null, .. }, Element::Word(None)) => *null,
            (Self::Rows { numbers, .. }, Element::Row(row)) => numbers.get(row.as_ref()),
            // Never: both sides have elements of one type.
            (_, _) => None,
        }
    }
}

fn word(element: Element<'_>) -> Option<u64> {
    match element {
        Element::Word(word) => word,
        Element::Row(_) => None,
    }
}
