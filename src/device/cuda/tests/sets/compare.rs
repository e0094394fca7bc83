//! Compares set joins of both devices: pairs, counts by row, and the values of each pair.

use std::collections::HashSet;

use crate::device::cuda::tests::*;
use crate::device::data::results::SetCounting;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique, SetTest, SetValue};
use crate::ir::side::Side;

/// Matches as pairs of a build row and a probe row, and match counts of the rows of both sides.
#[derive(Debug, PartialEq)]
struct Joined {
    pairs: Vec<(u32, u32)>,
    of_indexed: Vec<u32>,
    of_probe: Vec<u32>,
    exists: Vec<u32>,
    /// The overlap and the degrees of each pair, as bits.
    values: Vec<Vec<u64>>,
}

/// Two columns, of which the first is indexed, and the groups of their rows.
pub(crate) struct Sides {
    pub indexed: ArrayRef,
    pub probe: ArrayRef,
    pub groups: Option<(Vec<u32>, Vec<u32>, u32)>,
    /// The characters of a window, if the columns are texts whose windows are joined.
    pub shingles: Option<u32>,
}

const VALUES: [SetValue; 5] = [
    SetValue::Overlap,
    SetValue::Degree(SetMeasure::Jaccard),
    SetValue::Degree(SetMeasure::Dice),
    SetValue::Degree(SetMeasure::Cosine),
    SetValue::Degree(SetMeasure::Containment),
];

type Words<'a> = &'a dyn Fn(&[u32]) -> Buffer<u32>;

fn joined(
    device: &dyn Device,
    words: Words<'_>,
    sides: &Sides,
    test: SetTest,
    by: Option<SetTechnique>,
) -> (SetTechnique, Joined) {
    let upload = |array: &ArrayRef| {
        let column = device.upload(from_ref(array)).unwrap();
        match sides.shingles {
            Some(length) => Arc::new(device.shingle_text(&column, length).unwrap()),
            None => column,
        }
    };
    let (indexed, probe) = (upload(&sides.indexed), upload(&sides.probe));
    let groups = sides
        .groups
        .as_ref()
        .map(|(a, b, count)| (words(a), words(b), *count));
    let of_index = groups.as_ref().map(|(a, _, count)| (a, *count));
    let of_search = groups.as_ref().map(|(_, b, _)| b);
    let index = device
        .set_index(&indexed, of_index, &[], test, by, &probe)
        .unwrap();
    let found = device.set_search(&index, &probe, of_search, &[]).unwrap();
    let read = |words: &Buffer<u32>| device.read(words).unwrap();
    let (rows, matches) = (read(&found.probe.rows), read(&found.matches.rows));
    let (lo, hi) = (read(&found.ranges.lo), read(&found.ranges.hi));
    let segments = read(found.matches.segments.as_ref().unwrap());
    assert!(segments.len() <= rows.len() + 1);
    let mut pairs = Vec::with_capacity(matches.len());
    let lists: HashSet<(u32, u32)> = segments.windows(2).map(|w| (w[0], w[1])).collect();
    for (at, row) in rows.iter().enumerate() {
        // Rows with equal sets share a list.
        assert!(lists.contains(&(lo[at], hi[at])));
        let list = &matches[lo[at] as usize..hi[at] as usize];
        pairs.extend(list.iter().map(|matching| (*matching, *row)));
    }
    assert!(pairs.len() >= matches.len());
    pairs.sort_unstable();
    let probe_sets = device.probe_sets(&index, &probe, of_search).unwrap();
    let sides: (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    let sides = (words(&sides.0), words(&sides.1));
    let values = VALUES.map(|value| {
        let values = device
            .set_values(&index, &probe_sets, (&sides.0, &sides.1), value)
            .unwrap();
        let values = device.download(&values).unwrap();
        match value {
            SetValue::Overlap => {
                let values = values.as_primitive::<Int64Type>().values();
                values.iter().map(|value| *value as u64).collect()
            }
            SetValue::Degree(_) => {
                let values = values.as_primitive::<Float64Type>().values();
                values.iter().map(|value| value.to_bits()).collect()
            }
        }
    });

    let by_row = |counting| {
        let counted = device
            .set_count(&index, &probe, of_search, counting)
            .unwrap();
        let mut counts = vec![0; probe.rows()];
        let rows = read(&counted.probe.rows);
        for (row, count) in rows.iter().zip(read(&counted.counts).iter()) {
            counts[*row as usize] = *count;
        }
        (counts, counted.indexed.map(|counts| read(&counts).to_vec()))
    };
    let (exists, none) = by_row(SetCounting::Exists);
    assert!(none.is_none());
    let (of_probe, of_indexed) = by_row(SetCounting::Both);
    assert_eq!(by_row(SetCounting::Probe), (of_probe.clone(), None));
    let of_indexed = of_indexed.unwrap();
    let stood = device
        .occurrences(&found.matches, &found.ranges, indexed.rows())
        .unwrap();
    assert_eq!(read(&stood).to_vec(), of_indexed);
    let joined = Joined {
        pairs,
        of_indexed,
        of_probe,
        exists,
        values: values.to_vec(),
    };
    (index.technique, joined)
}

pub(crate) fn compare(
    host: &HostDevice,
    gpu: &CudaDevice,
    sides: &Sides,
    test: SetTest,
    techniques: &[Option<SetTechnique>],
) {
    let (_, expected) = joined(host, &|words| on_host(host, words), sides, test, None);
    for by in techniques {
        let (technique, found) = joined(gpu, &|words| on_gpu(gpu, words), sides, test, *by);
        let what = format!(
            "{by:?} as {technique}, {test:?}, {} × {} rows of {}, {}",
            sides.indexed.len(),
            sides.probe.len(),
            sides.indexed.data_type(),
            if sides.groups.is_some() {
                "groups"
            } else {
                "no groups"
            },
        );
        let differs = expected
            .pairs
            .iter()
            .zip(&found.pairs)
            .position(|(a, b)| a != b);
        assert!(
            expected.pairs == found.pairs,
            "{what}: {} pairs, not {}; pair {differs:?} is {:?}, not {:?}",
            found.pairs.len(),
            expected.pairs.len(),
            differs.map(|at| found.pairs[at]),
            differs.map(|at| expected.pairs[at]),
        );
        assert!(
            expected.of_indexed == found.of_indexed,
            "{what}: indexed counts"
        );
        assert!(expected.of_probe == found.of_probe, "{what}: counts");
        assert!(expected.exists == found.exists, "{what}: existence");
        assert!(expected.values == found.values, "{what}: values");
    }
}

pub(crate) fn every_technique() -> Vec<Option<SetTechnique>> {
    SetTechnique::ALL
        .into_iter()
        .map(Some)
        .chain([None])
        .collect()
}

pub(crate) fn predicates() -> Vec<SetPredicate> {
    let degrees = [
        (SetMeasure::Jaccard, 0.3),
        (SetMeasure::Jaccard, 0.7),
        (SetMeasure::Dice, 2.0 / 3.0),
        (SetMeasure::Cosine, 0.6),
        (SetMeasure::Cosine, 1.0),
        (SetMeasure::Containment, 0.5),
        (SetMeasure::Containment, 1.0),
    ];
    let degrees = degrees.into_iter().enumerate();
    let degrees = degrees.map(|(i, (measure, threshold))| {
        SetPredicate::degree(measure, threshold, i % 2 == 1).unwrap()
    });
    let others = [
        SetPredicate::degree(SetMeasure::Jaccard, 0.0, true).unwrap(),
        SetPredicate::degree(SetMeasure::Dice, 0.5, false).unwrap(),
        SetPredicate::Contains(Side::Left),
        SetPredicate::Contains(Side::Right),
        SetPredicate::Overlap(1),
        SetPredicate::Overlap(3),
    ];
    degrees.chain(others).collect()
}

/// `n` lists of up to `most` numbers below `universe`, small ones more often; with NULL lists and elements, empty
/// lists, and duplicates.
pub(crate) fn lists(random: &mut Random, n: usize, most: u64, universe: u64) -> ArrayRef {
    let rows = (0..n).map(|_| {
        let element = |random: &mut Random| {
            let number = random.below(universe);
            match random.below(40) {
                0 => None,
                _ => Some((number * random.below(universe) / universe.max(1)) as i32),
            }
        };
        let length = random.below(most + 1);
        let list: Vec<_> = (0..length).map(|_| element(random)).collect();
        (random.below(15) != 0).then_some(list)
    });
    let rows: Vec<_> = rows.collect();
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}

pub(crate) fn numbers(rows: impl IntoIterator<Item = Vec<i32>>) -> ArrayRef {
    let rows = rows.into_iter().map(|row| Some(row.into_iter().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}
