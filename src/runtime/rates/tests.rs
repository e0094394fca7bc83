use std::cell::Cell;
use std::time::Duration;

use super::*;
use crate::error::BowtieError;
use crate::runtime::kept_rates::tests::{Directory, card, gpu, host, machine};

const REFERENCE: MachineRates = MachineRates::REFERENCE;

#[test]
fn nothing_is_measured_where_it_is_off() {
    let known = KnownRates::new(KeptRates::Off);
    let rates = known.planned(&machine(), || panic!("measured"));
    assert_eq!(rates, REFERENCE);
    let opened = known.opened(&machine(), || panic!("measured"));
    assert_eq!(opened, Some(CardRates::REFERENCE));
    // So it is in unit tests.
    assert_eq!(planned(&gpu("NVIDIA L4")), REFERENCE);
}

/// The host at the first plan, the card when it is opened; later processes measure nothing.
#[test]
fn each_is_measured_once() {
    let directory = Directory::new("once");
    let known = KnownRates::new(directory.kept());
    let times = Cell::new(0);
    let measure = || {
        times.set(times.get() + 1);
        Some(host())
    };
    let of_host = MachineRates {
        host: host(),
        card: CardRates::REFERENCE,
    };
    assert_eq!(known.planned(&machine(), measure), of_host);
    assert_eq!(known.planned(&machine(), measure), of_host);
    assert_eq!(known.opened(&machine(), || Ok(Some(card()))), Some(card()));
    let opened = known.opened(&machine(), || panic!("measured twice"));
    assert_eq!(opened, Some(card()));
    let both = MachineRates {
        host: host(),
        card: card(),
    };
    assert_eq!(known.planned(&machine(), measure), both);
    assert_eq!(times.get(), 1);

    let later = KnownRates::new(directory.kept());
    assert_eq!(later.planned(&machine(), || panic!("measured")), both);
    let opened = later.opened(&machine(), || panic!("measured"));
    assert_eq!(opened, Some(card()));
}

#[test]
fn without_a_file_the_process_measures() {
    let known = KnownRates::new(KeptRates::In(None));
    assert_eq!(known.planned(&machine(), || Some(host())).host, host());
    assert_eq!(known.opened(&machine(), || Ok(Some(card()))), Some(card()));
    assert_eq!(known.planned(&machine(), || None).card, card());
}

/// Such as on a machine that does something else, or of an emulated card.
#[test]
fn measurements_are_bounded() {
    let directory = Directory::new("bounded");
    let known = KnownRates::new(directory.kept());
    let slow = || Some(HostRates::of([1e12, 0.0]));
    let rates = known.planned(&machine(), slow);
    assert!(rates.host.is_plausible(), "{rates:?}");
    let slow = CardRates::of([1e12; 5]);
    let opened = known.opened(&machine(), || Ok(Some(slow))).unwrap();
    assert!(opened.is_plausible(), "{opened:?}");
    let later = KnownRates::new(directory.kept());
    let kept = later.planned(&machine(), || panic!("measured"));
    assert_eq!((kept.host, kept.card), (rates.host, opened));
}

#[test]
fn a_card_that_cannot_be_measured_is_asked_once() {
    for result in [Ok(None), Err(BowtieError::Device("no".into()))] {
        let directory = Directory::new("refused-card");
        let known = KnownRates::new(directory.kept());
        assert_eq!(known.opened(&machine(), || result.clone()), None);
        let again = known.opened(&machine(), || panic!("measured twice"));
        assert_eq!(again, None);
        assert_eq!(known.planned(&machine(), || None), REFERENCE);
        // A later process tries again.
        let later = KnownRates::new(directory.kept());
        assert_eq!(later.opened(&machine(), || Ok(Some(card()))), Some(card()));
    }
}

/// Two sessions open a card, while a third one plans.
#[test]
fn plans_do_not_wait_for_a_card() {
    let known = KnownRates::new(KeptRates::In(None));
    let (begun, wait) = std::sync::mpsc::channel();
    let (planned, done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let known = &known;
        scope.spawn(move || {
            let measure = || {
                begun.send(()).unwrap();
                done.recv_timeout(Duration::from_secs(60)).unwrap();
                Ok(Some(card()))
            };
            known.opened(&machine(), measure)
        });
        wait.recv().unwrap();
        let other = scope.spawn(move || known.opened(&machine(), || panic!("measured twice")));
        assert_eq!(known.planned(&machine(), || None), REFERENCE);
        planned.send(()).unwrap();
        assert_eq!(other.join().unwrap(), Some(card()));
    });
    assert_eq!(known.planned(&machine(), || None).card, card());
}

/// Whatever the machine does meanwhile.
#[test]
fn a_host_is_measured() {
    let rates = host_rates::measured();
    let times = rates.times();
    assert!(
        times.iter().all(|time| time.is_finite() && *time > 0.0),
        "{times:?}"
    );
    assert!(rates.bounded().is_plausible());
}

/// What the reference's constants are compared with: `cargo test --release --lib -- --ignored --nocapture rates_of_this_machine`.
#[test]
#[ignore = "a measurement"]
fn rates_of_this_machine() {
    for _ in 0..5 {
        let begun = std::time::Instant::now();
        println!("{:?}, {:?}", host_rates::measured(), begun.elapsed());
    }
    for gpu in gpus::gpus().unwrap_or_default() {
        let begun = std::time::Instant::now();
        let rates = gpus::measure(gpu.ordinal);
        println!(
            "{}: {rates:?}, {:?} with its opening",
            gpu.name,
            begun.elapsed()
        );
        let begun = std::time::Instant::now();
        let rates = gpus::measure(gpu.ordinal);
        println!("{}: {rates:?}, {:?}", gpu.name, begun.elapsed());
    }
}
