//! Random choices of one case, all from its seed.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub(super) struct Draw(StdRng);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub fn between(&mut self, minimum: i64, maximum: i64) -> i64 {
        self.0.random_range(minimum..=maximum)
    }

    /// A number from 0 to `n` - 1.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }

    /// `true` in `percent` of all calls.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// One of the choices, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let total = choices.iter().map(|choice| choice.0).sum();
        let mut left = self.below(total);
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        unreachable!("the number is below the sum of all weights")
    }
}
