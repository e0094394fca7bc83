//! [`Register`]: a word and a state for each candidate of a block.

/// Candidates of a block: as many as keep a few registers in the first cache.
pub(crate) const BLOCK: usize = 512;

/// States of a value.
pub(crate) const VALUE: u8 = 0;

pub(crate) const NULL: u8 = 1;

pub(crate) const HOST: u8 = 2;

/// One value of each candidate.
#[derive(Debug)]
pub(crate) struct Register {
    pub(crate) words: Vec<u64>,
    /// Read only where not all are values.
    pub(crate) states: Vec<u8>,
    /// Whether each is a value: no NULL, and none for the host to decide.
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

    /// Leaves value `i` to the host, unless it is NULL.
    pub(crate) fn leave(&mut self, i: usize, len: usize) {
        if self.all_values {
            self.states[..len].fill(VALUE);
            self.all_values = false;
        }
        if self.states[i] == VALUE {
            self.states[i] = HOST;
        }
    }

    /// Takes the states of operands: one for the host to decide goes before a NULL.
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
