//! Runs a [`GroupProgram`] on the host: tasks of rows, each with the words of all groups, which are merged at the end. The GPU's counterpart is
//! generated: `device/cuda/codegen/groups`.

use std::ops::Range;

use rayon::prelude::*;

use crate::device::data::column::Column;
use crate::device::host::expr::row_program::{Machine, Source, source};
use crate::device::host::theta::pair_program::register::{BLOCK, HOST, VALUE};
use crate::error::{BowtieError, Result};
use crate::ir::group_program::{Accumulator, GroupProgram, Word, extreme_word};

/// Rows that one task folds.
const TASK_ROWS: usize = 1 << 16;

/// The words of all groups of the rows `within`, one group after the other. Fails with [`BowtieError::NeedsDataFusion`] if DataFusion has to evaluate a row.
pub(crate) fn fold(
    within: Range<usize>,
    program: &GroupProgram,
    columns: &[&Column],
    check_cancelled: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Option<Vec<u64>>> {
    let Some(groups) = program.groups() else {
        return Ok(None);
    };
    let sources = columns.iter().map(|column| source(column.on_host()?));
    let sources = sources.collect::<Result<Vec<_>>>()?;
    let layout = program.layout();
    let none = || vec![0; groups as usize * program.words()];
    let tasks = (0..within.len().div_ceil(TASK_ROWS)).into_par_iter();
    let folded = tasks.try_fold(none, |words, task| {
        check_cancelled()?;
        let from = within.start + task * TASK_ROWS;
        let mut fold = Fold {
            program,
            sources: &sources,
            machine: Machine::of_registers(program.rows.registers()),
            groups: vec![0; BLOCK],
            words,
        };
        fold.rows(from..(from + TASK_ROWS).min(within.end))?;
        Ok(fold.words)
    });
    let merged = folded.try_reduce(none, |mut all, words| {
        merge(&layout, &mut all, &words);
        Ok(all)
    });
    merged.map(Some)
}

/// Merges the words of other rows into those of `all`.
fn merge(layout: &[Word], all: &mut [u64], words: &[u64]) {
    let each: usize = layout.iter().map(|word| word.words()).sum();
    for (all, words) in all.chunks_mut(each).zip(words.chunks(each)) {
        let mut at = 0;
        for word in layout {
            match word {
                Word::Sum => all[at] = all[at].wrapping_add(words[at]),
                Word::WideSum => add_wide(&mut all[at..at + 2], wide(&words[at..at + 2])),
                Word::Most => all[at] = all[at].max(words[at]),
            }
            at += word.words();
        }
    }
}

fn wide(halves: &[u64]) -> i128 {
    (u128::from(halves[1]) << 64 | u128::from(halves[0])) as i128
}

fn add_wide(halves: &mut [u64], value: i128) {
    let sum = wide(halves).wrapping_add(value) as u128;
    (halves[0], halves[1]) = (sum as u64, (sum >> 64) as u64);
}

/// The rows of one task.
struct Fold<'a> {
    program: &'a GroupProgram,
    sources: &'a [Source<'a>],
    machine: Machine,
    /// The group of each row of a block.
    groups: Vec<u32>,
    words: Vec<u64>,
}

impl Fold<'_> {
    fn rows(&mut self, rows: Range<usize>) -> Result<()> {
        let mut passing = [false; BLOCK];
        for from in rows.clone().step_by(BLOCK) {
            let block = from..(from + BLOCK).min(rows.end);
            let len = block.len();
            passing[..len].fill(true);
            for instruction in &self.program.rows.instructions {
                self.machine.run(instruction, self.sources, block.clone())?;
            }
            for predicate in &self.program.predicates {
                let register = self.machine.registers.get(*predicate);
                for (i, passes) in passing[..len].iter_mut().enumerate().filter(|(_, p)| **p) {
                    match register.state(i) {
                        HOST => return Err(BowtieError::NeedsDataFusion),
                        state => *passes = state == VALUE && register.words[i] == 1,
                    }
                }
            }
            if passing[..len].contains(&true) {
                self.find_groups(len);
                self.accumulate(&passing[..len])?;
            }
        }
        Ok(())
    }

    /// The group of each row of a block.
    fn find_groups(&mut self, len: usize) {
        self.groups[..len].fill(0);
        for key in &self.program.keys {
            let codes = self.machine.registers.get(key.register);
            for (i, group) in self.groups[..len].iter_mut().enumerate() {
                let digit = match codes.state(i) == VALUE {
                    true => (codes.words[i] as u32).min(key.bound - 1),
                    false => key.digits() - 1,
                };
                *group = *group * key.digits() + digit;
            }
        }
    }

    fn accumulate(&mut self, passing: &[bool]) -> Result<()> {
        let each = self.program.words();
        let len = passing.len();
        // Each row that passes, and the first word of its group.
        let rows: Vec<(usize, usize)> = (0..len)
            .filter(|i| passing[*i])
            .map(|i| (i, self.groups[i] as usize * each))
            .collect();
        for (_, at) in &rows {
            self.words[*at] += 1;
        }
        let mut first = 1;
        for accumulator in &self.program.accumulators {
            let Accumulator {
                fold,
                register,
                kind,
                nullable,
            } = *accumulator;
            let values = self.machine.registers.get(register);
            let decimals = &self.machine.wide[usize::from(register)];
            let counts = usize::from(nullable);
            for (i, at) in &rows {
                match values.state(*i) {
                    VALUE => {}
                    HOST => return Err(BowtieError::NeedsDataFusion),
                    _ if !nullable => {
                        return Err(BowtieError::Internal("a NULL among no NULLs".into()));
                    }
                    _ => continue,
                }
                let words = &mut self.words[at + first..];
                if nullable {
                    words[0] += 1;
                }
                let words = &mut words[counts..];
                match accumulator.word() {
                    None => {}
                    Some(Word::WideSum) => add_wide(&mut words[..2], decimals[*i]),
                    Some(Word::Sum) => words[0] = words[0].wrapping_add(values.words[*i]),
                    Some(Word::Most) => {
                        let word = extreme_word(fold, kind, values.words[*i]);
                        words[0] = words[0].max(word.unwrap_or_default());
                    }
                }
            }
            first += accumulator.layout().map(Word::words).sum::<usize>();
        }
        Ok(())
    }
}
