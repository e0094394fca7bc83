//! Registers of a block of candidates, a word and a state for each, and the instructions that do not depend on the kind
//! of a word.

use std::mem::swap;

use pulp::Arch;

use crate::device::host::theta::pair_program::arithmetic;
use crate::device::host::theta::pair_program::register::{BLOCK, HOST, NULL, Register, VALUE};
use crate::device::host::theta::zone_map::LEAF;
use crate::ir::program::{Instruction, Op};

/// The registers of a program for one block of candidates.
#[derive(Debug)]
pub(crate) struct Registers {
    arch: Arch,
    registers: Vec<Register>,
    /// Receives the result of an instruction, so that its output register may also be an operand.
    spare: Register,
    /// One bit for each candidate that passed.
    passed: [u64; BLOCK / LEAF],
}

impl Registers {
    pub(crate) fn new(registers: usize) -> Self {
        Self {
            arch: Arch::new(),
            registers: (0..registers).map(|_| Register::new()).collect(),
            spare: Register::new(),
            passed: [0; BLOCK / LEAF],
        }
    }

    /// Sets register `out` by `write`, which fills `len` words and states and returns whether all are values.
    pub(crate) fn write(
        &mut self,
        out: u8,
        len: usize,
        write: impl FnOnce(&mut [u64], &mut [u8]) -> bool,
    ) {
        let register = &mut self.registers[usize::from(out)];
        register.all_values = write(&mut register.words[..len], &mut register.states[..len]);
    }

    /// Runs an instruction other than a load.
    pub(crate) fn run(&mut self, instruction: &Instruction, len: usize) {
        let Instruction { op, kind, .. } = *instruction;
        let register = |number: u8| &self.registers[usize::from(number)];
        let out = &mut self.spare;
        if op == Op::Constant {
            out.words[..len].fill(instruction.constant as u64);
            out.all_values = instruction.b == 0;
            out.states[..len].fill(NULL);
        } else if op == Op::Select {
            let [a, b, c] = [instruction.a, instruction.b, instruction.c].map(register);
            select(a, b, c, out, len);
        } else {
            let (a, b) = (register(instruction.a), register(instruction.b));
            match op {
                Op::And => kleene(self.arch, false, a, b, out, len),
                Op::Or => kleene(self.arch, true, a, b, out, len),
                Op::IsNull => is_null(a, out, len, true),
                Op::IsNotNull => is_null(a, out, len, false),
                Op::Distinct | Op::NotDistinct => {
                    // The words do not matter where an operand is NULL.
                    let equal = op == Op::NotDistinct;
                    let compare = if equal { Op::Eq } else { Op::NotEq };
                    arithmetic::binary(self.arch, compare, kind, a, b, out, len);
                    distinct(a, b, out, len, equal);
                }
                Op::Not | Op::Neg | Op::Cast => {
                    out.states_of(&[a], len);
                    arithmetic::unary(self.arch, instruction, a, out, len);
                }
                _ => {
                    out.states_of(&[a, b], len);
                    arithmetic::binary(self.arch, op, kind, a, b, out, len);
                }
            }
        }
        swap(out, &mut self.registers[usize::from(instruction.out)]);
    }

    pub(crate) fn get(&self, register: u8) -> &Register {
        &self.registers[usize::from(register)]
    }

    /// Sets register `out` by `make`. In: `out` with the merged states of `operands`, and all registers as they were
    /// before.
    pub(crate) fn combine(
        &mut self,
        out: u8,
        operands: &[u8],
        len: usize,
        make: impl FnOnce(&mut Register, &[Register]),
    ) {
        let Self {
            registers, spare, ..
        } = self;
        let operands = operands
            .iter()
            .map(|operand| &registers[usize::from(*operand)]);
        spare.states_of(&operands.collect::<Vec<_>>(), len);
        make(spare, registers);
        swap(spare, &mut registers[usize::from(out)]);
    }

    /// A bit for each candidate for which a Boolean register is true; `None` if DataFusion has to evaluate one of them.
    pub(crate) fn passed(&mut self, register: u8, len: usize) -> Option<&[u64]> {
        let register = &self.registers[usize::from(register)];
        let states = &register.states[..len];
        if !register.all_values && states.contains(&HOST) {
            return None;
        }
        let blocks = register.words[..len].chunks(LEAF);
        for (i, (words, bits)) in blocks.zip(&mut self.passed).enumerate() {
            let set = |bits, (j, word): (usize, &u64)| bits | word << j;
            *bits = words.iter().enumerate().fold(0, set);
            if !register.all_values {
                let set = |bits, (j, state): (usize, &u8)| bits | u64::from(*state == VALUE) << j;
                let states = states[i * LEAF..].iter().take(LEAF);
                *bits &= states.enumerate().fold(0, set);
            }
        }
        Some(&self.passed[..len.div_ceil(LEAF)])
    }
}

/// AND if `decides` is false, OR if it is true: the value of an operand that decides the result.
fn kleene(arch: Arch, decides: bool, a: &Register, b: &Register, out: &mut Register, len: usize) {
    out.all_values = a.all_values && b.all_values;
    let words = a.words[..len].iter().zip(&b.words);
    let out_words = out.words[..len].iter_mut();
    if out.all_values {
        return arch.dispatch(
            #[inline(always)]
            || {
                for (out, (a, b)) in out_words.zip(words) {
                    *out = if decides { a | b } else { a & b };
                }
            },
        );
    }
    for (i, (out_word, (a_word, b_word))) in out_words.zip(words).enumerate() {
        let (a_state, b_state) = (a.state(i), b.state(i));
        let decided = |state, word: u64| state == VALUE && word == u64::from(decides);
        let (state, word) = match () {
            // DataFusion does not evaluate the right operand if the left one decides for a whole batch.
            () if decided(a_state, *a_word) => (VALUE, decides),
            () if a_state == HOST || b_state == HOST => (HOST, false),
            () if decided(b_state, *b_word) => (VALUE, decides),
            () if a_state == NULL || b_state == NULL => (NULL, false),
            () => (VALUE, !decides),
        };
        *out_word = word.into();
        out.states[i] = state;
    }
}

fn select(a: &Register, b: &Register, c: &Register, out: &mut Register, len: usize) {
    out.all_values = a.all_values && b.all_values && c.all_values;
    for i in 0..len {
        let (state, taken) = match (a.state(i), a.words[i]) {
            (VALUE, 1) => (b.state(i), b.words[i]),
            (HOST, _) => (HOST, 0),
            _ => (c.state(i), c.words[i]),
        };
        out.words[i] = taken;
        out.states[i] = state;
    }
}

fn is_null(a: &Register, out: &mut Register, len: usize, wanted: bool) {
    out.all_values = true;
    for i in 0..len {
        let state = a.state(i);
        out.words[i] = u64::from((state == NULL) == wanted);
        if state == HOST {
            out.set_fault(i, len);
        }
    }
}

/// Corrects the comparison in `out` where an operand is NULL: two NULLs are equal.
pub(crate) fn distinct(a: &Register, b: &Register, out: &mut Register, len: usize, equal: bool) {
    out.all_values = true;
    if a.all_values && b.all_values {
        return;
    }
    for i in 0..len {
        match (a.state(i), b.state(i)) {
            (HOST, _) | (_, HOST) => out.set_fault(i, len),
            (VALUE, VALUE) => {}
            (a, b) => out.words[i] = u64::from((a == b) == equal),
        }
    }
}
