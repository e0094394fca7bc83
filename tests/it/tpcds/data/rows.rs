//! Cells, and random ones.

use rand::Rng;
use rand::rngs::StdRng;

/// A value. Decimals are numbers of their last digit, dates days after 1970-01-01.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Text(String),
}

pub(crate) fn number(value: i64) -> Cell {
    Cell::Number(value)
}

pub(crate) fn text(value: &str) -> Cell {
    Cell::Text(value.into())
}

/// One of some texts.
pub(crate) fn one_of(rng: &mut StdRng, values: &[&str]) -> Cell {
    text(values[rng.random_range(0..values.len())])
}

/// The cell, or NULL with this probability.
pub(crate) fn or_null(rng: &mut StdRng, probability: f64, cell: Cell) -> Cell {
    match rng.random_bool(probability) {
        true => Cell::Null,
        false => cell,
    }
}
