//! Estimated seconds against measured ones, and by the rates of other machines.

use super::*;
use crate::device::machine_rates::MemoryRates;

pub(crate) const H200: Gpu = card(120 << 30);
pub(crate) const HOST: Host = host(16);

/// A card with the reference's rates.
pub(crate) const fn card(memory: u64) -> Gpu {
    Gpu {
        memory,
        rates: CardRates::REFERENCE,
    }
}

/// Cores with the reference's rates.
pub(crate) const fn host(cores: usize) -> Host {
    Host {
        cores,
        rates: HostRates::REFERENCE,
    }
}

pub(crate) fn flow(rows: usize, row_bytes: usize) -> Flow {
    Flow {
        rows: rows as f64,
        columns: row_bytes / 4,
        bytes: (rows * row_bytes) as f64,
    }
}

/// Seconds in DataFusion and on the device, of `SELECT s.k, r.x, s.y` as `benches/equi` has it.
fn equi(build: usize) -> (f64, f64) {
    equi_on(build, HOST)
}

fn equi_on(build: usize, host: Host) -> (f64, f64) {
    let (left, right) = (flow(build, 8), flow(2 * build, 8));
    let output = flow(2 * build, 12);
    let work = Work::Join {
        left,
        right,
        output,
        collected: false,
    };
    let up = H200.up(left, 1.0, host) + H200.up(right, 1.0, host);
    let device = up + H200.seconds(&work) + H200.down(output);
    (host.seconds(&work), device)
}

#[test]
fn equi_joins_cost_what_was_measured() {
    for (build, host_ms, device_ms) in [
        (1 << 20, 10.3, 5.6),
        (1 << 23, 79.6, 33.0),
        (1 << 25, 533.0, 123.0),
    ] {
        let (host, device) = equi(build);
        let within = |seconds: f64, ms: f64| (0.7..1.4).contains(&(seconds * 1e3 / ms));
        assert!(within(host, host_ms), "{build}: {host} in DataFusion");
        assert!(within(device, device_ms), "{build}: {device} on the device");
    }
}

#[test]
fn few_rows_stay_in_datafusion() {
    let (host, device) = equi(1 << 14);
    assert!(host < device);
    let (host, device) = equi(1 << 20);
    assert!(device < host);
}

#[test]
fn aggregations_of_narrow_rows_gain_less_than_joins() {
    let of = |groups: f64| {
        let input = flow(1 << 26, 12);
        let work = Work::Group {
            input,
            groups,
            aggregates: 2,
            text_keys: 0,
            twice: true,
        };
        let output = flow(groups as usize, 20);
        let device = H200.up(input, 1.0, HOST)
            + H200.seconds(&work)
            + HOST.finish(groups, 2)
            + H200.down(output);
        device / HOST.seconds(&work)
    };
    assert!((0.45..0.8).contains(&of(16.0)), "{}", of(16.0));
    assert!(of((1 << 24) as f64) < of(16.0) * 3.0);
}

/// TPC-H Q17 at scale factor 10: DataFusion takes some 500 ms, most of them for this aggregation.
#[test]
fn groups_are_created_in_each_partition() {
    let made = HOST.groups_of_partitions(60e6, 2e6);
    assert!((26e6..28e6).contains(&made), "{made}");
    // Each of a few groups is in all partitions, and no partition has more groups than rows.
    assert_eq!(HOST.groups_of_partitions(60e6, 4.0).round(), 64.0);
    assert!(HOST.groups_of_partitions(1e6, 1e6) <= 1e6);
    assert_eq!(HOST.groups_of_partitions(0.0, 0.0), 0.0);
    let seconds = |twice| {
        HOST.seconds(&Work::Group {
            input: flow(60_000_000, 24),
            groups: 2e6,
            aggregates: 1,
            text_keys: 0,
            twice,
        })
    };
    assert!((0.35..0.55).contains(&seconds(true)));
    assert!(seconds(false) < seconds(true) / 3.0);
}

/// TPC-H Q21 at scale factor 10 in DataFusion: 1.7 s to build the table.
#[test]
fn one_core_builds_a_collected_side() {
    let seconds = |collected| {
        let (left, right) = (flow(38_000_000, 40), flow(7_000_000, 8));
        HOST.seconds(&Work::Join {
            left,
            right,
            output: flow(18_000_000, 40),
            collected,
        })
    };
    assert!((1.6..2.2).contains(&seconds(true)), "{}", seconds(true));
    assert!(seconds(false) < seconds(true) / 4.0);
}

#[test]
fn rows_that_exceed_the_device_are_transferred_again() {
    let small = card(256 << 20);
    assert_eq!(H200.output_on_device(flow(1 << 25, 8), HOST), 0.0);
    assert!(small.output_on_device(flow(1 << 25, 8), HOST) > 0.03);
}

#[test]
fn one_core_stages_slower_than_the_bus() {
    let flow = flow(1 << 25, 8);
    assert!(H200.up(flow, 1.0, host(1)) > 2.0 * H200.up(flow, 1.0, HOST));
}

/// Each rate of the machine scales the costs that depend on it, and no others.
#[test]
fn rates_scale_costs() {
    let rows = flow(1 << 26, 12);
    let join = Work::Join {
        left: flow(1 << 25, 8),
        right: rows,
        output: rows,
        collected: true,
    };
    let of = |card: CardRates, host: HostRates| {
        let gpu = Gpu {
            rates: card,
            ..H200
        };
        let host = Host {
            rates: host,
            ..HOST
        };
        [
            host.seconds(&join),
            host.finish(1e6, 1),
            gpu.up(rows, 1.0, host),
            gpu.down(rows),
            gpu.seconds(&join),
            gpu.start(),
        ]
    };
    let (card, host) = (CardRates::REFERENCE, HostRates::REFERENCE);
    let reference = of(card, host);
    let slower = |card, host| -> Vec<f64> {
        let times = of(card, host).into_iter().zip(reference);
        times.map(|(time, of)| time / of).collect()
    };
    let is_near = |ratios: Vec<f64>, expected: [f64; 6]| {
        let near = ratios
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() < 0.02);
        assert!(near, "{ratios:?}, not {expected:?}");
    };
    is_near(slower(card, host), [1.0; 6]);
    let of_core = HostRates {
        probed_key: 2.0 * host.probed_key,
        ..host
    };
    is_near(slower(card, of_core), [2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
    // Sixteen cores stage 80 GB/s on the reference, of which the bus takes 28.
    let of_copies = HostRates {
        copied_byte: 8.0 * host.copied_byte,
        ..host
    };
    is_near(slower(card, of_copies), [1.0, 1.0, 2.78, 1.0, 1.0, 1.0]);
    let of_bus = CardRates {
        uploaded_byte: 4.0 * card.uploaded_byte,
        downloaded_byte: 3.0 * card.downloaded_byte,
        ..card
    };
    is_near(slower(of_bus, host), [1.0, 1.0, 3.95, 2.99, 1.0, 1.0]);
    let of_memory = CardRates {
        memory: MemoryRates {
            copied_byte: 4.0 * card.memory.copied_byte,
            gathered_value: 4.0 * card.memory.gathered_value,
        },
        ..card
    };
    let [.., kernels, _] = slower(of_memory, host)[..] else {
        panic!("six ratios")
    };
    assert!((3.5..4.0).contains(&kernels), "{kernels}");
    let of_launch = CardRates {
        launch: card.launch + 40e6,
        ..card
    };
    let [.., start] = slower(of_launch, host)[..] else {
        panic!("six ratios")
    };
    assert!((start - 3.0).abs() < 1e-6, "{start}");
}

/// A join that takes DataFusion less time than a GPU, and more if its cores are half as fast.
#[test]
fn cores_of_half_the_speed_leave_more_joins_to_a_gpu() {
    let slow = HostRates {
        probed_key: 2.0 * HostRates::REFERENCE.probed_key,
        ..HostRates::REFERENCE
    };
    let slow = Host {
        rates: slow,
        ..HOST
    };
    let gains = |host, build| {
        let (host, device) = equi_on(build, host);
        device < 0.8 * host
    };
    let of = |host| [1 << 15, 150_000, 1 << 20].map(|build| gains(host, build));
    assert_eq!(of(HOST), [false, false, true]);
    assert_eq!(of(slow), [false, true, true]);
}
