//! Columns of a program as slices, from which the words of a block are loaded.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};

use crate::device::host::natives::natives;
use crate::error::{BowtieError, Result};
use crate::ir::program::Kind;

/// The values and NULLs of a column.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    words: Words<'a>,
    nulls: Option<&'a NullBuffer>,
}

#[derive(Debug)]
enum Words<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Bool(&'a BooleanBuffer),
}

/// Which values of one side a block loads.
pub(crate) enum Positions<'a> {
    One(usize),
    Run(Range<usize>),
    Each(&'a [u32]),
}

impl<'a> Values<'a> {
    pub(crate) fn of(array: &'a ArrayRef) -> Result<Self> {
        let data_type = array.data_type();
        let kind = Kind::of_word(data_type).ok_or_else(|| {
            BowtieError::Internal(format!("{data_type} has no words for a program"))
        })?;
        let words = match kind {
            Kind::I8 => Words::I8(natives(array)?),
            Kind::I16 => Words::I16(natives(array)?),
            Kind::I32 => Words::I32(natives(array)?),
            Kind::I64 => Words::I64(natives(array)?),
            Kind::U8 => Words::U8(natives(array)?),
            Kind::U16 => Words::U16(natives(array)?),
            Kind::U32 => Words::U32(natives(array)?),
            Kind::U64 => Words::U64(natives(array)?),
            Kind::F32 => Words::F32(natives(array)?),
            Kind::F64 => Words::F64(natives(array)?),
            Kind::Bool => Words::Bool(array.as_boolean().values()),
            // Not of a word.
            Kind::Decimal => {
                return Err(BowtieError::Internal("decimals have no words".into()));
            }
        };
        Ok(Self {
            words,
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
        })
    }

    /// Loads the words at `positions`, and their states if a value is NULL. Returns whether none is NULL.
    pub(crate) fn load(
        &self,
        positions: Positions<'_>,
        words: &mut [u64],
        states: &mut [u8],
    ) -> bool {
        macro_rules! load {
            ($values:expr, $word:expr) => {
                copy(*$values, &positions, words, $word)
            };
        }
        match &self.words {
            Words::I8(values) => load!(values, |v| i64::from(v) as u64),
            Words::I16(values) => load!(values, |v| i64::from(v) as u64),
            Words::I32(values) => load!(values, |v| i64::from(v) as u64),
            Words::I64(values) => load!(values, |v| v as u64),
            Words::U8(values) => load!(values, u64::from),
            Words::U16(values) => load!(values, u64::from),
            Words::U32(values) => load!(values, u64::from),
            Words::U64(values) => load!(values, |v| v),
            Words::F32(values) => load!(values, |v: f32| u64::from(v.to_bits())),
            Words::F64(values) => load!(values, f64::to_bits),
            Words::Bool(bits) => copy_bits(bits, &positions, words, u64::from),
        }
        let Some(nulls) = self.nulls else {
            return true;
        };
        copy_bits(nulls.inner(), &positions, states, |valid| u8::from(!valid));
        false
    }
}

fn copy<T: Copy>(
    values: &[T],
    positions: &Positions<'_>,
    out: &mut [u64],
    word: impl Fn(T) -> u64,
) {
    match positions {
        Positions::One(at) => out.fill(word(values[*at])),
        Positions::Run(run) => {
            for (out, value) in out.iter_mut().zip(&values[run.clone()]) {
                *out = word(*value);
            }
        }
        Positions::Each(each) => {
            for (out, at) in out.iter_mut().zip(*each) {
                *out = word(values[*at as usize]);
            }
        }
    }
}

fn copy_bits<W: Copy>(
    bits: &BooleanBuffer,
    positions: &Positions<'_>,
    out: &mut [W],
    word: impl Fn(bool) -> W,
) {
    match positions {
        Positions::One(at) => out.fill(word(bits.value(*at))),
        Positions::Run(run) => {
            for (out, at) in out.iter_mut().zip(run.clone()) {
                *out = word(bits.value(at));
            }
        }
        Positions::Each(each) => {
            for (out, at) in out.iter_mut().zip(*each) {
                *out = word(bits.value(*at as usize));
            }
        }
    }
}
