//! [`MachineRates`]: how fast a card and its host are, as far as the cost model asks. `runtime/host_rates.rs` and `cuda/rates/card_rates.rs`
//! measure them, and `runtime/kept_rates.rs` keeps them.
//!
//! The constants of the cost model are those of one H200 and its host, the *reference*. What another machine takes is the constant times
//! a ratio: a time of that machine over the reference's.

/// Of a card and its host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MachineRates {
    pub(crate) host: HostRates,
    pub(crate) card: CardRates,
}

/// Times of one core of the host, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HostRates {
    /// Of a key that is hashed and found in a table larger than the core's caches.
    pub(crate) probed_key: f64,
    /// Of a byte that is copied.
    pub(crate) copied_byte: f64,
}

/// Times of a card, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CardRates {
    /// Of a byte that is copied to the card through staging memory, and back.
    pub(crate) uploaded_byte: f64,
    pub(crate) downloaded_byte: f64,
    /// Of a launch and the wait for it.
    pub(crate) launch: f64,
    pub(crate) memory: MemoryRates,
}

/// Times of a card's memory, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryRates {
    /// Of a byte of a sequential copy, read and written.
    pub(crate) copied_byte: f64,
    /// Of a random gather of a value of 4 bytes.
    pub(crate) gathered_value: f64,
}

/// The plausible times, as multiples of the reference's. A bus of one lane is slower, but `auto` leaves everything to the host long
/// before that.
const LEAST: f64 = 0.25;
const MOST: f64 = 32.0;

/// The constants fit what was measured on the reference up to this factor, and so do measurements of a few milliseconds one another.
/// Within it a time is the reference's.
const NOISE: f64 = 1.4;

/// A measured time, as a plausible multiple of the reference's.
pub(crate) fn bounded(time: f64, reference: f64) -> f64 {
    time.clamp(LEAST * reference, MOST * reference)
}

/// A time as a multiple of the reference's.
fn ratio(time: f64, reference: f64) -> f64 {
    let ratio = time / reference;
    match (1.0 / NOISE..=NOISE).contains(&ratio) {
        true => 1.0,
        false => ratio,
    }
}

fn are_plausible<const N: usize>(times: [f64; N], reference: [f64; N]) -> bool {
    let mut pairs = times.into_iter().zip(reference);
    pairs.all(|(time, reference)| bounded(time, reference) == time)
}

fn all_bounded<const N: usize>(times: [f64; N], reference: [f64; N]) -> [f64; N] {
    std::array::from_fn(|i| bounded(times[i], reference[i]))
}

impl MachineRates {
    pub(crate) const REFERENCE: Self = Self {
        host: HostRates::REFERENCE,
        card: CardRates::REFERENCE,
    };
}

impl HostRates {
    /// One of 16 cores of an Intel Xeon, the host of an H100 or H200 (`docs/performance/log-queries.md`).
    pub(crate) const REFERENCE: Self = Self {
        probed_key: 13_300.0,
        copied_byte: 53.0,
    };

    /// The times by name, as a file has them.
    pub(crate) const NAMES: [&str; 2] = ["probed_key", "copied_byte"];

    pub(crate) fn times(self) -> [f64; 2] {
        [self.probed_key, self.copied_byte]
    }

    pub(crate) fn of([probed_key, copied_byte]: [f64; 2]) -> Self {
        Self {
            probed_key,
            copied_byte,
        }
    }

    /// Within the plausible times.
    pub(crate) fn bounded(self) -> Self {
        Self::of(all_bounded(self.times(), Self::REFERENCE.times()))
    }

    pub(crate) fn is_plausible(self) -> bool {
        are_plausible(self.times(), Self::REFERENCE.times())
    }

    /// The time of operators that hash or sort.
    pub(crate) fn operators(self) -> f64 {
        ratio(self.probed_key, Self::REFERENCE.probed_key)
    }

    /// The time of copies.
    pub(crate) fn copies(self) -> f64 {
        ratio(self.copied_byte, Self::REFERENCE.copied_byte)
    }
}

impl CardRates {
    /// An H200, whose bus and host are those of an H100: staged copies of 32 MiB, and a launch, as measured on the latter
    /// (`docs/performance/log-queries.md`).
    pub(crate) const REFERENCE: Self = Self {
        uploaded_byte: 46.0,
        downloaded_byte: 28.5,
        launch: 9e6,
        memory: MemoryRates::REFERENCE,
    };

    /// The times by name, as a file has them.
    pub(crate) const NAMES: [&str; 5] = [
        "uploaded_byte",
        "downloaded_byte",
        "launch",
        "memory_copied_byte",
        "memory_gathered_value",
    ];

    pub(crate) fn times(self) -> [f64; 5] {
        let MemoryRates {
            copied_byte,
            gathered_value,
        } = self.memory;
        let (up, down) = (self.uploaded_byte, self.downloaded_byte);
        [up, down, self.launch, copied_byte, gathered_value]
    }

    pub(crate) fn of(times: [f64; 5]) -> Self {
        let [
            uploaded_byte,
            downloaded_byte,
            launch,
            copied_byte,
            gathered_value,
        ] = times;
        Self {
            uploaded_byte,
            downloaded_byte,
            launch,
            memory: MemoryRates {
                copied_byte,
                gathered_value,
            },
        }
    }

    /// Within the plausible times.
    pub(crate) fn bounded(self) -> Self {
        Self::of(all_bounded(self.times(), Self::REFERENCE.times()))
    }

    pub(crate) fn is_plausible(self) -> bool {
        are_plausible(self.times(), Self::REFERENCE.times())
    }

    /// The time of uploads.
    pub(crate) fn uploads(self) -> f64 {
        ratio(self.uploaded_byte, Self::REFERENCE.uploaded_byte)
    }

    /// The time of downloads.
    pub(crate) fn downloads(self) -> f64 {
        ratio(self.downloaded_byte, Self::REFERENCE.downloaded_byte)
    }

    /// The time of kernels that read and write in order.
    pub(crate) fn copies(self) -> f64 {
        let reference = MemoryRates::REFERENCE.copied_byte;
        ratio(self.memory.copied_byte, reference)
    }

    /// The time of kernels that read or write in no order.
    pub(crate) fn gathers(self) -> f64 {
        let reference = MemoryRates::REFERENCE.gathered_value;
        ratio(self.memory.gathered_value, reference)
    }

    /// Seconds by which a launch and the wait for it take longer.
    pub(crate) fn launch_delay(self) -> f64 {
        let reference = Self::REFERENCE.launch;
        (ratio(self.launch, reference) - 1.0).max(0.0) * reference * 1e-12
    }
}

impl MemoryRates {
    /// An H200, for a card that could not be measured, too.
    pub(crate) const REFERENCE: Self = Self {
        copied_byte: 0.51,
        gathered_value: 23.7,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounded() {
        let nonsense = CardRates::of([0.0, 1e9, 1e30, 0.51, 5.0]);
        assert!(!nonsense.is_plausible());
        let bounded = nonsense.bounded();
        assert!(bounded.is_plausible());
        assert_eq!(bounded.times(), [11.5, 912.0, 288e6, 0.51, 5.925]);
        assert!(CardRates::REFERENCE.is_plausible() && HostRates::REFERENCE.is_plausible());
        assert!(!HostRates::of([f64::NAN, 53.0]).is_plausible());
        assert!(!HostRates::of([-1.0, 53.0]).is_plausible());
    }

    #[test]
    fn noise_is_the_references() {
        let of = |times: f64| HostRates {
            probed_key: HostRates::REFERENCE.probed_key * times,
            ..HostRates::REFERENCE
        };
        for (times, ratio) in [(1.0, 1.0), (1.35, 1.0), (0.75, 1.0), (2.0, 2.0), (0.5, 0.5)] {
            assert_eq!(of(times).operators(), ratio);
        }
        let late = |launch| {
            CardRates {
                launch,
                ..CardRates::REFERENCE
            }
            .launch_delay()
        };
        assert_eq!([late(9e6), late(3e6)], [0.0, 0.0]);
        assert!((late(49e6) - 40e-6).abs() < 1e-9);
    }
}
