//! Rates of the card.

use crate::device::cuda::rates::card_rates;
use crate::device::cuda::rates::memory_rates;
use crate::device::cuda::tests::*;

/// They are measured once, and are in the range of known cards.
#[test]
fn rates_of_memory() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let rates = memory_rates::memory_rates(&gpu.stream).unwrap();
    println!("{rates:?}");
    assert!((0.12..=7.7).contains(&rates.copied_byte), "{rates:?}");
    assert!((6.8..=437.0).contains(&rates.gathered_value), "{rates:?}");
    assert_eq!(memory_rates::memory_rates(&gpu.stream).unwrap(), rates);
}

/// Whatever else the card does meanwhile.
#[test]
fn rates_of_the_card() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let rates = card_rates::card_rates(&gpu.stream).unwrap();
    println!("{rates:?}");
    assert_eq!(gpu.budget().in_use(), 0);
    match rates {
        Some(rates) => {
            let is_time = |time: &f64| time.is_finite() && *time > 0.0;
            assert!(rates.times().iter().all(is_time), "{rates:?}");
        }
        // Other programs, or an emulator.
        None => println!("skipped: the card is too busy or too slow to measure"),
    }
}
