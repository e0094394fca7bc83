//! The words of groups in a block's shared memory.
//!
//! With few groups, each thread has words of its own, which it adds to without atomics, and neighbouring threads' words are adjacent: word `w` of
//! group `g` of thread `t` is at `(g * words + w) * threads + t`. With more groups, a block's threads share words.

use crate::device::cuda::codegen::ptx::{Long, Text, Word as Register32};
use crate::device::cuda::codegen::registers::{Register, Rows, is_signed, lengthened};
use crate::device::cuda::runtime::kernel_cache::form::GroupShape;
use crate::ir::fold::Fold;
use crate::ir::group_program::{Accumulator, Word};

/// Bytes of a word.
pub(crate) const WORD: u32 = 8;

/// Whose the words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slots {
    OfThread,
    OfBlock,
}

/// The forms to try, the fastest first.
pub(crate) const FORMS: [Slots; 2] = [Slots::OfThread, Slots::OfBlock];

impl Slots {
    /// Threads of a block.
    pub(crate) fn threads(self) -> u32 {
        match self {
            Self::OfThread => 128,
            Self::OfBlock => 256,
        }
    }

    /// The copies of each word in a block.
    fn copies(self) -> u32 {
        match self {
            Self::OfThread => self.threads(),
            Self::OfBlock => 1,
        }
    }

    /// Bytes of shared memory of a block.
    pub(crate) fn shared_bytes(self, shape: &GroupShape) -> u64 {
        let words: usize = shape.layout().iter().map(|word| word.words()).sum();
        u64::from(shape.groups) * words as u64 * u64::from(WORD * self.copies())
    }
}

/// Words in shared memory.
pub(crate) struct Words {
    pub(crate) slots: Slots,
    pub(crate) groups: u32,
    pub(crate) layout: Vec<Word>,
    /// 64-bit words of a group.
    pub(crate) each: u32,
    pub(crate) thread: Register32,
    /// The address of the thread's own word 0 of group 0, or of the block's.
    base: Register32,
}

/// A value that is merged into a word.
enum Value {
    One(Long),
    Wide([Long; 2]),
}

impl Words {
    pub(crate) fn new(text: &mut Text, shape: &GroupShape, slots: Slots) -> Self {
        let layout = shape.layout();
        let thread = text.word("mov.u32", &[&"%tid.x"]);
        let memory = text.word("mov.u32", &[&"rows"]);
        Self {
            slots,
            groups: shape.groups,
            each: layout.iter().map(|word| word.words() as u32).sum(),
            layout,
            base: match slots {
                Slots::OfThread => text.word("mad.lo.u32", &[&thread, &WORD, &memory]),
                Slots::OfBlock => memory,
            },
            thread,
        }
    }

    /// Bytes of shared memory.
    pub(crate) fn bytes(&self) -> u32 {
        self.groups * self.each * self.stride()
    }

    /// Bytes from a word to the next one.
    pub(crate) fn stride(&self) -> u32 {
        WORD * self.slots.copies()
    }

    /// Sets all words to 0.
    pub(crate) fn clear(&self, text: &mut Text) {
        let threads = self.slots.threads();
        let (at, step, first) = match self.slots {
            Slots::OfThread => (self.base, self.stride(), self.base),
            Slots::OfBlock => {
                let at = text.word("mad.lo.u32", &[&self.thread, &WORD, &self.base]);
                (at, WORD * threads, self.base)
            }
        };
        let at = text.word("mov.u32", &[&at]);
        let end = text.word("add.u32", &[&first, &self.bytes()]);
        text.line("CLEAR:");
        let is_done = text.predicate("setp.ge.u32", &[&at, &end]);
        text.line(format_args!("@{is_done} bra CLEARED;"));
        text.line(format_args!("st.shared.u64 [{at}], 0;"));
        text.set("add.u32", at, &[&at, &step]);
        text.line("bra CLEAR;");
        text.line("CLEARED:");
        if self.slots == Slots::OfBlock {
            text.line("bar.sync 0;");
        }
    }

    /// Adds row `k` of the thread to a group.
    pub(crate) fn add(
        &mut self,
        text: &mut Text,
        group: Register32,
        shape: &GroupShape,
        arguments: &[Register],
        k: u32,
    ) -> Option<()> {
        let of_group = self.each * self.stride();
        let at = text.word("mad.lo.u32", &[&group, &of_group, &self.base]);
        let one = text.long("mov.u64", &[&1]);
        let mut values = vec![Value::One(one)];
        for (accumulator, argument) in shape.accumulators.iter().zip(arguments) {
            let is_null = match (argument.null, accumulator.nullable) {
                (Some(null), true) => Some(text.bit(null, k)),
                _ => None,
            };
            // A value that is NULL changes no word.
            let or_nothing = |text: &mut Text, value: Long| match is_null {
                Some(is_null) => text.long("selp.b64", &[&0, &value, &is_null]),
                None => value,
            };
            if accumulator.nullable {
                let counted = or_nothing(text, one);
                values.push(Value::One(counted));
            }
            match accumulator.word() {
                None => {}
                Some(Word::WideSum) => {
                    let Rows::Decimals(halves) = &argument.rows else {
                        return None;
                    };
                    let [lower, upper] = *halves.get(k as usize)?;
                    values.push(Value::Wide([
                        or_nothing(text, lower),
                        or_nothing(text, upper),
                    ]));
                }
                Some(Word::Sum) => {
                    let value = value_of(text, argument, k)?;
                    values.push(Value::One(or_nothing(text, value)));
                }
                Some(Word::Most) => {
                    let value = value_of(text, argument, k)?;
                    let word = extreme(text, accumulator, value)?;
                    values.push(Value::One(or_nothing(text, word)));
                }
            }
        }
        match self.slots {
            Slots::OfThread => self.add_own(text, at, &values),
            Slots::OfBlock => self.add_shared(text, at, &values),
        }
        Some(())
    }

    /// Adds to words of the thread alone: all are read before the first is written.
    fn add_own(&self, text: &mut Text, at: Register32, values: &[Value]) {
        let stride = self.stride();
        let known: Vec<Long> = (0..self.each)
            .map(|w| text.long("ld.shared.u64", &[&format_args!("[{at}+{}]", w * stride)]))
            .collect();
        let mut w = 0;
        for (word, value) in self.layout.iter().zip(values) {
            let made = match (word, value) {
                (_, Value::Wide([lower, upper])) => vec![
                    text.long("add.cc.u64", &[&known[w], lower]),
                    text.long("addc.u64", &[&known[w + 1], upper]),
                ],
                (Word::Most, Value::One(value)) => vec![text.long("max.u64", &[&known[w], value])],
                (_, Value::One(value)) => vec![text.long("add.u64", &[&known[w], value])],
            };
            for made in made {
                let place = w as u32 * stride;
                text.line(format_args!("st.shared.u64 [{at}+{place}], {made};"));
                w += 1;
            }
        }
    }

    /// Adds to words that other threads add to as well.
    fn add_shared(&self, text: &mut Text, at: Register32, values: &[Value]) {
        let mut place = 0;
        for (word, value) in self.layout.iter().zip(values) {
            let address = format!("[{at}+{place}]");
            match (word, value) {
                (_, Value::Wide(halves)) => {
                    let upper = format!("[{at}+{}]", place + WORD);
                    add_wide(text, "shared", &address, &upper, *halves, "");
                }
                (Word::Most, Value::One(value)) => {
                    text.line(format_args!("red.shared.max.u64 {address}, {value};"));
                }
                (_, Value::One(value)) => {
                    text.line(format_args!("red.shared.add.u64 {address}, {value};"));
                }
            }
            place += WORD * word.words() as u32;
        }
    }
}

/// Adds a number of two words, the lower half first; its carry goes to the upper half. `guard`: `@%p1 ` for some threads alone.
pub(crate) fn add_wide(
    text: &mut Text,
    space: &str,
    lower: &str,
    upper: &str,
    [low, high]: [Long; 2],
    guard: &str,
) {
    let before = text.long("mov.u64", &[&0]);
    text.line(format_args!(
        "{guard}atom.{space}.add.u64 {before}, {lower}, {low};"
    ));
    let after = text.long("add.u64", &[&before, &low]);
    let carries = text.predicate("setp.lt.u64", &[&after, &low]);
    let carry = text.long("selp.u64", &[&1, &0, &carries]);
    let high = text.long("add.u64", &[&high, &carry]);
    text.line(format_args!("{guard}red.{space}.add.u64 {upper}, {high};"));
}

/// An integer of a register, extended to 64 bits.
fn value_of(text: &mut Text, register: &Register, k: u32) -> Option<Long> {
    match &register.rows {
        Rows::Words(words) => Some(lengthened(text, register.kind, *words.get(k as usize)?)),
        Rows::Longs(longs) => longs.get(k as usize).copied(),
        // A count does not read them.
        Rows::Bools(_) | Rows::Decimals(_) => None,
    }
}

/// As [`extreme_word`](crate::ir::group_program::extreme_word).
fn extreme(text: &mut Text, accumulator: &Accumulator, value: Long) -> Option<Long> {
    let ordered = match is_signed(accumulator.kind) {
        true => text.long("xor.b64", &[&value, &"0x8000000000000000"]),
        false => value,
    };
    match accumulator.fold {
        Fold::Min => Some(text.long("not.b64", &[&ordered])),
        Fold::Max => Some(ordered),
        _ => None,
    }
}
