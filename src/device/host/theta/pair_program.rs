//! Runs a pair program on the host, one instruction for a block of candidates at a time. Each instruction is decoded
//! once a block, and its loop compiles to SIMD instructions.
//!
//! Candidates are the pairs that ranges and the walk over zone maps let through. A long range is evaluated in blocks of
//! consecutive build positions with one probe position. Shorter ranges are collected, with their probe positions, until
//! a block is full.

use crate::device::host::theta::pair_program::register::BLOCK;
use crate::ir::program::{Instruction, Op};

pub(crate) mod arithmetic;
pub(crate) mod register;
pub(crate) mod registers;
pub(crate) mod values;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::data::matches::BoundProgram;
use crate::device::host::theta::pair_program::registers::Registers;
use crate::device::host::theta::pair_program::values::{Positions, Values};
use crate::device::host::theta::zone_map;
use crate::device::host::theta::zone_map::{HostMatches, LEAF, Span, bits_of};
use crate::error::{BowtieError, Result};
use crate::ir::side::Side;

/// Ranges with fewer candidates are collected into a common block.
const SHORT: usize = 64;

/// A program with its columns as slices.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    instructions: &'a [Instruction],
    registers: usize,
    left: Vec<Values<'a>>,
    right: Vec<Values<'a>>,
    build_side: Side,
}

/// The candidates of a block; at most [`BLOCK`].
#[derive(Debug, Clone)]
enum Candidates<'a> {
    /// One probe position with consecutive build positions.
    Run { probe: usize, build: Range<usize> },
    /// A probe position and a build position for each candidate.
    Pairs { probe: &'a [u32], build: &'a [u32] },
}

impl Candidates<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Run { build, .. } => build.len(),
            Self::Pairs { build, .. } => build.len(),
        }
    }

    fn positions(&self, of_build: bool) -> Positions<'_> {
        match (self, of_build) {
            (Self::Run { build, .. }, true) => Positions::Run(build.clone()),
            (Self::Run { probe, .. }, false) => Positions::One(*probe),
            (Self::Pairs { build, .. }, true) => Positions::Each(build),
            (Self::Pairs { probe, .. }, false) => Positions::Each(probe),
        }
    }
}

/// The working memory of one thread.
#[derive(Debug)]
pub(crate) struct Scratch {
    registers: Registers,
    /// Candidates of short ranges, not evaluated yet.
    probe: Vec<u32>,
    build: Vec<u32>,
}

impl<'a> Bound<'a> {
    pub(crate) fn new(bound: BoundProgram<'a>) -> Result<Self> {
        let values = |columns: &'a [crate::device::data::column::Column]| {
            let columns = columns.iter();
            columns
                .map(|column| Values::of(column.on_host()?))
                .collect()
        };
        let (build, probe): (Result<Vec<_>>, Result<Vec<_>>) =
            (values(bound.build), values(bound.probe));
        let (left, right) = match bound.build_side {
            Side::Left => (build?, probe?),
            Side::Right => (probe?, build?),
        };
        Ok(Self {
            instructions: &bound.program.instructions,
            registers: bound.program.registers(),
            left,
            right,
            build_side: bound.build_side,
        })
    }

    pub(crate) fn scratch(&self) -> Scratch {
        Scratch {
            registers: Registers::new(self.registers),
            probe: Vec::with_capacity(BLOCK),
            build: Vec::with_capacity(BLOCK),
        }
    }

    /// As `zone_map::walk`, but visits only candidates that pass the program. A row may be visited some more times
    /// after it asked to stop.
    pub(crate) fn walk(
        &self,
        scratch: &mut Scratch,
        matches: &HostMatches<'_>,
        group: usize,
        rows: u64,
        cancelled: &AtomicBool,
        visit: impl FnMut(usize, Span) -> bool,
    ) -> Result<()> {
        scratch.probe.clear();
        scratch.build.clear();
        let mut filter = Filter {
            bound: self,
            scratch,
            first: group * LEAF,
            alive: u64::MAX,
            cancelled,
            visit,
            result: Ok(()),
        };
        zone_map::walk(matches, group, rows, |row, span| {
            match span {
                Span::All(positions) if positions.len() >= SHORT => {
                    // Earlier candidates of the same row come first.
                    filter.flush();
                    filter.run(row, positions);
                }
                Span::All(positions) => positions.for_each(|at| filter.push(row, at)),
                Span::Bits { base, bits } => {
                    bits_of(bits).for_each(|bit| filter.push(row, base + bit));
                }
            }
            filter.wants(row)
        });
        filter.flush();
        filter.result
    }

    /// Evaluates the program; the last instruction's register holds the value of each candidate.
    fn evaluate<'r>(
        &self,
        registers: &'r mut Registers,
        candidates: &Candidates<'_>,
    ) -> Result<&'r [u64]> {
        let len = candidates.len();
        for instruction in self.instructions {
            let (side, columns) = match instruction.op {
                Op::Load => (Side::Left, &self.left),
                Op::LoadRight => (Side::Right, &self.right),
                _ => {
                    registers.run(instruction, len);
                    continue;
                }
            };
            let column = usize::from(instruction.column);
            let values = columns.get(column).ok_or_else(|| {
                BowtieError::Internal(format!("a program without its column {column}"))
            })?;
            let positions = candidates.positions(side == self.build_side);
            registers.write(instruction.out, len, |words, states| {
                values.load(positions, words, states)
            });
        }
        let last = self.instructions.last().map_or(0, |last| last.out);
        registers
            .passed(last, len)
            .ok_or(BowtieError::NeedsDataFusion)
    }
}

/// A running walk that keeps only the candidates that pass.
struct Filter<'f, 'a, V> {
    bound: &'f Bound<'a>,
    scratch: &'f mut Scratch,
    /// The position of the group's first row.
    first: usize,
    /// Rows whose search goes on; bit `i` is row `first + i`.
    alive: u64,
    cancelled: &'f AtomicBool,
    visit: V,
    result: Result<()>,
}

impl<V: FnMut(usize, Span) -> bool> Filter<'_, '_, V> {
    fn wants(&self, row: usize) -> bool {
        self.result.is_ok() && self.alive & (1 << (row - self.first)) != 0
    }

    fn push(&mut self, row: usize, position: usize) {
        self.scratch.probe.push(row as u32);
        self.scratch.build.push(position as u32);
        if self.scratch.build.len() == BLOCK {
            self.flush();
        }
    }

    /// Evaluates the candidates collected so far.
    fn flush(&mut self) {
        if self.scratch.build.is_empty() || self.is_over() {
            return;
        }
        let scratch = &mut *self.scratch;
        let candidates = Candidates::Pairs {
            probe: &scratch.probe,
            build: &scratch.build,
        };
        match self.bound.evaluate(&mut scratch.registers, &candidates) {
            Err(error) => self.result = Err(error),
            Ok(passed) => {
                for (word, bits) in passed.iter().enumerate() {
                    for bit in bits_of(*bits) {
                        let at = word * 64 + bit;
                        let row = scratch.probe[at] as usize;
                        let mark = 1 << (row - self.first);
                        let span = Span::Bits {
                            base: scratch.build[at] as usize,
                            bits: 1,
                        };
                        if self.alive & mark != 0 && !(self.visit)(row, span) {
                            self.alive &= !mark;
                        }
                    }
                }
            }
        }
        scratch.probe.clear();
        scratch.build.clear();
    }

    /// Evaluates consecutive candidates of one row.
    fn run(&mut self, row: usize, positions: Range<usize>) {
        for from in positions.clone().step_by(BLOCK) {
            if !self.wants(row) || self.is_over() {
                return;
            }
            let block = from..(from + BLOCK).min(positions.end);
            let candidates = Candidates::Run {
                probe: row,
                build: block.clone(),
            };
            let registers = &mut self.scratch.registers;
            let passed = match self.bound.evaluate(registers, &candidates) {
                Ok(passed) => passed,
                Err(error) => {
                    self.result = Err(error);
                    return;
                }
            };
            for (word, bits) in passed.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                let span = Span::Bits {
                    base: block.start + word * 64,
                    bits: *bits,
                };
                if !(self.visit)(row, span) {
                    self.alive &= !(1 << (row - self.first));
                    break;
                }
            }
        }
    }

    /// Whether the walk failed or was cancelled.
    fn is_over(&mut self) -> bool {
        if self.cancelled.load(Ordering::Relaxed) {
            self.result = Err(BowtieError::Cancelled);
        }
        self.result.is_err()
    }
}
