//! [`Generated`]: a kernel that was made at run time, before the driver compiles it: its text, and how it is launched.

/// The text of a kernel and its launch parameters.
#[derive(Debug)]
pub(crate) struct Generated {
    pub text: String,
    pub parameters: Vec<Parameter>,
    pub(crate) layout: Layout,
    /// For a kernel whose blocks loop over tiles: the bytes of shared memory of a block; the grid has as many blocks as
    /// run concurrently. `None`: each block has one tile, and no shared memory.
    pub(crate) persistent_shared_bytes: Option<u32>,
    /// Whether each output may have NULLs.
    pub nullable: Vec<bool>,
}

/// The name of the kernel in its module.
pub(crate) const KERNEL: &str = "generated";

/// The parameters of a kernel, 64 bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    Rows,
    Column(usize),
    ColumnValidity(usize),
    Output(usize),
    OutputValidity(usize),
    /// The lower and the upper 64 bits of an instruction's constant.
    Constant(usize),
    ConstantUpper(usize),
    /// A word that is set if a row is a fault.
    Faults,
    /// Of `codegen/filter/one_pass.rs`: its counts, and each column that it moves, as input and output.
    Counts,
    Moved(usize),
    Kept(usize),
    /// Of `codegen/filter/bit_test.rs`: the bitmap, and for each key column the least value, the number of values from the
    /// least to the greatest, the digit of NULL, and the stride.
    Bits,
    Least(usize),
    Digits(usize),
    NullDigit(usize),
    Stride(usize),
}

/// Rows of a unit (1, 2 or 4), units of a thread, and threads of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub unit: u32,
    pub groups: u32,
    pub threads: u32,
}

impl Layout {
    /// For a program with values of at most `widest` bytes (at most 16), and `bytes` bytes of registers for a row:
    /// enough bytes in flight for each thread, few enough to stay in registers.
    pub(crate) fn of_program(widest: u32, bytes: u32) -> Self {
        Self::new(widest, if bytes <= 24 { 8 } else { 4 }, 256)
    }

    /// With `rows` rows for each thread: a power of 2.
    pub(crate) fn new(widest: u32, rows: u32, threads: u32) -> Self {
        let unit = (16 / widest).clamp(1, 4).min(rows);
        Self {
            unit,
            groups: rows / unit,
            threads,
        }
    }

    /// The rows of a thread.
    pub(crate) fn rows(self) -> u32 {
        self.unit * self.groups
    }

    /// The rows of a block.
    pub(crate) fn tile(self) -> u32 {
        self.rows() * self.threads
    }
}
