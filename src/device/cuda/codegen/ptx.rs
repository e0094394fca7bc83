//! PTX text while it is generated: registers are numbered as they are needed, an instruction is a line.
//!
//! Registers are untyped, of 32 or 64 bits; an instruction's name has its type. Except for a few accumulators each
//! register is set once. The driver's compiler allocates the card's registers.

use std::fmt;
use std::fmt::{Display, Write as _};

/// The most lines of a kernel, and the number of lines that a division counts for.
const MOST_LINES: usize = 4096;
const DIVISION: usize = 8;

/// A register of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u32);

/// A register of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Long(u32);

/// A predicate register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Predicate(u32);

impl Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%r{}", self.0)
    }
}

impl Display for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%d{}", self.0)
    }
}

impl Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%p{}", self.0)
    }
}

/// An operand: a register or a number.
pub(crate) type Operand<'a> = &'a dyn Display;

/// The lines of a kernel so far, and the numbers of its registers.
#[derive(Debug, Default)]
pub(crate) struct Text {
    lines: String,
    /// The number of lines, weighted by their compile time.
    cost: usize,
    words: u32,
    longs: u32,
    predicates: u32,
}

impl Text {
    /// Whether the interpreter, which starts immediately, is better. The driver's compile time grows faster than the
    /// text, and cannot be interrupted: a second for some 5000 lines, a minute for 16,000.
    pub(crate) fn is_too_long(&self) -> bool {
        self.cost > MOST_LINES
    }

    pub(crate) fn new_word(&mut self) -> Word {
        self.words += 1;
        Word(self.words)
    }

    pub(crate) fn new_long(&mut self) -> Long {
        self.longs += 1;
        Long(self.longs)
    }

    fn new_predicate(&mut self) -> Predicate {
        self.predicates += 1;
        Predicate(self.predicates)
    }

    /// Appends a whole line.
    pub(crate) fn line(&mut self, line: impl Display) {
        self.cost += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(self.lines, "\t{line}");
    }

    /// Appends `name out, operands;`.
    pub(crate) fn set(&mut self, name: &str, out: impl Display, operands: &[Operand<'_>]) {
        // A division by a number compiles to a multiplication.
        let by_register = |by: &Operand<'_>| by.to_string().starts_with('%');
        let divides = name.starts_with("div") || name.starts_with("rem");
        let divides = divides && operands.last().is_some_and(by_register);
        self.cost += if divides { DIVISION } else { 1 };
        let _ = write!(self.lines, "\t{name} {out}");
        for operand in operands {
            let _ = write!(self.lines, ", {operand}");
        }
        self.lines.push_str(";\n");
    }

    /// Appends an instruction whose result is a new register.
    pub(crate) fn word(&mut self, name: &str, operands: &[Operand<'_>]) -> Word {
        let out = self.new_word();
        self.set(name, out, operands);
        out
    }

    pub(crate) fn long(&mut self, name: &str, operands: &[Operand<'_>]) -> Long {
        let out = self.new_long();
        self.set(name, out, operands);
        out
    }

    pub(crate) fn predicate(&mut self, name: &str, operands: &[Operand<'_>]) -> Predicate {
        let out = self.new_predicate();
        self.set(name, out, operands);
        out
    }

    /// The number of rows: the first parameter of every kernel.
    pub(crate) fn rows(&mut self) -> Word {
        let rows = self.long("ld.param.u64", &[&"[p0]"]);
        self.word("cvt.u32.u64", &[&rows])
    }

    /// The module: one kernel of this name with the given number of 64-bit parameters `p0`, `p1`, …. Its dynamic shared
    /// memory is named `rows`.
    pub(crate) fn module(self, kernel: &str, parameters: usize, threads: u32) -> String {
        let parameters: Vec<String> = (0..parameters)
            .map(|p| format!("\t.param .u64 p{p}"))
            .collect();
        format!(
            ".version 8.3\n.target sm_75\n.address_size 64\n\n.extern .shared .align 16 .b8 rows[];\n\n.visible .entry {kernel}(\n{}\n)\n.maxntid {threads}, 1, 1\n{{\n\
             \t.reg .b32 %r<{}>;\n\t.reg .b64 %d<{}>;\n\t.reg .pred %p<{}>;\n{}\tret;\n}}\n",
            parameters.join(",\n"),
            self.words + 1,
            self.longs + 1,
            self.predicates + 1,
            self.lines
        )
    }
}
