//! [`Register`]: a word and a state for each candidate of a block.

/// Candidates of a block; the registers of most programs then fit the first-level cache.
pub(crate) const BLOCK: usize = 512;

/// States of a value: [`VALUE`] and [`NULL`], or [`HOST`] where DataFusion has to evaluate the condition.
pub(crate) const VALUE: u8 = 0;

pub(crate) const NULL: u8 = 1;

pub(crate) const HOST: u8 = 2;

/// One value for each candidate of a block.
#[derive(Debug)]
pub(crate) struct Register {
    pub(crate) words: Vec<u64>,
    /// Read only if `all_values` is false.
    pub(crate) states: Vec<u8>,
    /// Whether every state is [`VALUE`].
    pub(crate) all_values: bool,
}

impl Register {
    pub(crate) fn new() -> Self {
        Self {
            words: vec![0; BLOCK],
            states: vec![VALUE; BLOCK],
            all_values: true,
        }
    }

    pub(crate) fn state(&self, i: usize) -> u8 {
        match self.all_values {
            true => VALUE,
            false => self.states[i],
        }
    }

    /// Sets the state of value `i` to [`HOST`], unless it is NULL.
    pub(crate) fn set_fault(&mut self, i: usize, len: usize) {
        if self.all_values {
            self.states[..len].fill(VALUE);
            self.all_values = false;
        }
        if self.states[i] == VALUE {
            self.states[i] = HOST;
        }
    }

    /// Merges the states of operands: [`HOST`] takes precedence over [`NULL`].
    pub(crate) fn states_of(&mut self, operands: &[&Register], len: usize) {
        self.all_values = operands.iter().all(|operand| operand.all_values);
        if self.all_values {
            return;
        }
        self.states[..len].fill(VALUE);
        for operand in operands.iter().filter(|operand| !operand.all_values) {
            for (state, of) in self.states[..len].iter_mut().zip(&operand.states) {
                *state = (*state).max(*of);
            }
        }
    }
}
