use crate::device::data::buffer::Buffer;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Matches, Test};
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::Counter;
use crate::device::data::structures::ZonedKeys;
use crate::device::host::device::HostDevice;
use crate::device::host::theta::wavelet_tree::*;
use crate::device::host::theta::zone_map;
use crate::device::primitives::device::Device;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;

const INEQUALITIES: [Comparison; 4] = [
    Comparison::Lt,
    Comparison::LtEq,
    Comparison::Gt,
    Comparison::GtEq,
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n
    }

    fn words(&mut self, n: usize, kind: usize) -> Vec<u64> {
        (0..n as u64)
            .map(|i| match kind {
                0 => self.below(u64::MAX),
                1 => 7,
                2 => [0, 1, 1 << 63, u64::MAX][self.below(4) as usize],
                3 => n as u64 - i,
                _ => self.below(n as u64 / 5 + 2),
            })
            .collect()
    }
}

#[test]
fn counts_are_those_of_a_scan() {
    let budget = Budget::new(u64::MAX);
    let mut random = Random(9);
    // A node of 256 keys, one of 4096, and one more bit.
    let around = |n: usize| [n - 1, n, n + 1];
    let sizes = [1, 31, 32, 33, 63, 64, 65, 1000].into_iter().chain(
        [128, 256, 512, 4096, 8192, 16384, 20_000]
            .into_iter()
            .flat_map(around),
    );
    for n in sizes {
        for kind in 0..5 {
            let keys = random.words(n, kind);
            let wavelet = Wavelet::build(&budget, &keys, &AtomicBool::new(false)).unwrap();
            let mut words = random.words(60, kind);
            words.extend((0..60).map(|_| keys[random.below(n as u64) as usize]));
            let mut end = || random.below(n as u64 + 1) as u32;
            let ranges = |i: usize, (a, b): (u32, u32)| match i % 5 {
                0 => (0, n as u32),
                1 => (0, a),
                2 => (a, n as u32),
                3 => (0, 0),
                _ => (a.min(b), a.max(b)),
            };
            let (lo, hi): (Vec<u32>, Vec<u32>) =
                (0..words.len()).map(|i| ranges(i, (end(), end()))).unzip();
            for op in INEQUALITIES {
                let mut counts = vec![0; words.len()];
                wavelet.count(op, &words, &lo, &hi, &mut counts);
                for i in 0..words.len() {
                    let range = &keys[lo[i] as usize..hi[i] as usize];
                    let expected = range.iter().filter(|key| op.holds(**key, words[i]));
                    assert_eq!(
                        counts[i] as usize,
                        expected.count(),
                        "{n} keys of kind {kind}, {op} {} in {}..{}",
                        words[i],
                        lo[i],
                        hi[i]
                    );
                }
            }
        }
    }
}

/// Ranges of keys in a given order, each with two free ends, searched for words in a given order.
struct Side {
    build: OrderedRows,
    ranges: Ranges,
    keys: ZonedKeys,
    words: ZonedKeys,
}

impl Side {
    fn of(device: &HostDevice, keys: Vec<u64>, words: Vec<u64>) -> Self {
        let lease = || device.budget().lease(0, "test").unwrap();
        let n = keys.len();
        let in_order = |len: usize| OrderedRows {
            rows: device.sequence(0, len).unwrap(),
            keys: None,
            segments: None,
        };
        let end = |i: usize| (i * n / words.len()) as u32;
        let hi = (0..words.len()).map(end);
        let lo = (0..words.len()).map(|i| end(i) / 2);
        let zoned = |words: Vec<u64>| {
            let build = in_order(words.len());
            let values = Buffer::host(words, lease());
            let keys = Keys {
                values,
                valid: None,
            };
            device.zone_keys(&keys, &build).unwrap()
        };
        Self {
            ranges: Ranges {
                lo: Buffer::host(lo.collect(), lease()),
                hi: Buffer::host(hi.collect(), lease()),
            },
            build: in_order(n),
            keys: zoned(keys),
            words: zoned(words),
        }
    }

    fn test(&self) -> Test<'_> {
        Test {
            op: Comparison::Gt,
            build: &self.keys,
            probe: &self.words,
        }
    }

    fn matches<'a>(&'a self, tests: &'a [Test<'a>]) -> Matches<'a> {
        Matches {
            build: &self.build,
            probe: &self.build,
            ranges: &self.ranges,
            tests,
            program: None,
        }
    }

    /// With prefixes as ranges.
    fn with_one_free_end(self, device: &HostDevice) -> Self {
        let lo = vec![0; self.ranges.rows()];
        let lease = device.budget().lease(0, "test").unwrap();
        let ranges = Ranges {
            lo: Buffer::host(lo, lease),
            ..self.ranges
        };
        Self { ranges, ..self }
    }

    fn has_index(&self) -> bool {
        self.keys
            .0
            .get::<zone_map::ZonedKeys>()
            .unwrap()
            .wavelet
            .get()
            .is_some()
    }
}

#[test]
fn the_index_is_made_where_zones_decide_nothing_and_there_is_room() {
    let n = 30_000;
    let mut random = Random(3);
    let rising: Vec<u64> = (0..n as u64)
        .map(|i| i << 20 | random.below(1 << 20))
        .collect();
    let (a, b) = (random.words(n, 0), random.words(n, 0));
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    let apart = Side::of(&device, a.clone(), b.clone());
    let close = Side::of(&device, rising.clone(), rising.clone());
    let tests = [apart.test(), close.test()];
    let of_apart = device.count_matches(apart.matches(&tests[..1]), false);
    assert_eq!(of_apart.unwrap().by, Counter::WaveletTree);
    assert!(apart.has_index());
    let of_close = device.count_matches(close.matches(&tests[1..]), false);
    assert_eq!(of_close.unwrap().by, Counter::Walk);
    assert!(!close.has_index());

    // Both sides are merged where ranges have one free end.
    let prefixes = Side::of(&device, a.clone(), b.clone()).with_one_free_end(&device);
    let tests = [prefixes.test()];
    let merged = device
        .count_matches(prefixes.matches(&tests), false)
        .unwrap();
    assert_eq!(merged.by, Counter::Merge);
    assert!(!prefixes.has_index());
    let wavelet = Wavelet::build(device.budget(), &a, &AtomicBool::new(false)).unwrap();
    let mut counts = vec![0; n];
    let (lo, hi) = (&prefixes.ranges.lo, &prefixes.ranges.hi);
    let (lo, hi) = (lo.on_host().unwrap(), hi.on_host().unwrap());
    wavelet.count(Comparison::Gt, &b, lo, hi, &mut counts);
    assert_eq!(merged.counts.on_host().unwrap()[..], counts[..]);

    // Existence, two tests, and `<>` are walks.
    let others = Side::of(&device, a.clone(), b.clone());
    let test = others.test();
    let not_equal = Test {
        op: Comparison::NotEq,
        ..test
    };
    device.count_matches(others.matches(&[test]), true).unwrap();
    device
        .count_matches(others.matches(&[test, test]), false)
        .unwrap();
    device
        .count_matches(others.matches(&[not_equal]), false)
        .unwrap();
    assert!(!others.has_index());

    // A budget for both sides and the counts, but not for the tree: an out-of-memory error asks for a smaller tile.
    let small = HostDevice::new(Budget::new(n as u64 * 40)).unwrap();
    let refused = Side::of(&small, a, b);
    let error = small
        .count_matches(refused.matches(&[refused.test()]), false)
        .unwrap_err();
    assert!(error.is_divisible());
    assert!(!refused.has_index());
    drop((refused, error));
    assert_eq!(small.budget().in_use(), 0);
}

#[test]
fn a_cancelled_count_ends() {
    let budget = Budget::new(u64::MAX);
    let cancelled = AtomicBool::new(true);
    let ended = Wavelet::build(&budget, &[3, 1, 2], &cancelled);
    assert!(matches!(ended, Err(BowtieError::Cancelled)));
    assert_eq!(budget.in_use(), 0);
}
