//! Set joins of elements and lists of every type and form, and of those with an encoding of their own.

use crate::device::cuda::tests::sets::compare::{
    Sides, compare, every_technique, lists, numbers, predicates,
};
use crate::device::cuda::tests::*;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique};
use crate::ir::side::Side;

/// Lists of `values`, cut at random; some are NULL.
fn list_of(random: &mut Random, values: &ArrayRef) -> ArrayRef {
    let mut lengths = vec![];
    let mut left = values.len();
    while left > 0 {
        let length = random.below(9).min(left as u64) as usize;
        lengths.push(length);
        left -= length;
    }
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths.iter().copied());
    let nulls = BooleanBuffer::collect_bool(lengths.len(), |_| random.below(9) != 0);
    let list = ListArray::new(
        field,
        offsets,
        Arc::clone(values),
        Some(NullBuffer::new(nulls)),
    );
    Arc::new(list)
}

#[test]
fn elements_of_every_type() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(62);
    let techniques = [
        SetTechnique::Prefix,
        SetTechnique::Rarest,
        SetTechnique::InvertedIndex,
    ]
    .map(Some);
    for kind in [4, 5] {
        let mut of_values = columns(&mut random, 900, kind);
        let mut others = columns(&mut random, 700, kind);
        for column in [&mut of_values, &mut others] {
            let floats: Vec<_> = (0..600)
                .map(|i| {
                    [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, 2.0 + f64::from(i % 50)][i as usize % 6]
                })
                .collect();
            column.push(Arc::new(Float64Array::from(floats)));
            let text = column[27].clone();
            for data_type in [
                DataType::LargeUtf8,
                DataType::Utf8View,
                DataType::Binary,
                DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)),
            ] {
                column.push(cast(&text, &data_type).unwrap());
            }
            let long = text.as_string::<i32>().iter();
            let long = long.map(|text| text.map(|text| format!("{text}{}", "x".repeat(90))));
            column.push(Arc::new(long.collect::<StringArray>()));
        }
        for (i, (values, others)) in of_values.iter().zip(&others).enumerate() {
            let sides = Sides {
                indexed: list_of(&mut random, values),
                probe: list_of(&mut random, others),
                groups: None,
                shingles: None,
            };
            for predicate in [
                SetPredicate::Overlap(2),
                SetPredicate::Contains(Side::Right),
            ] {
                let by = techniques[i % 3];
                compare(&host, &gpu, &sides, predicate.seen_from(Side::Right), &[by]);
            }
        }
    }
}

#[test]
fn lists_of_every_kind_and_single_elements() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(63);
    let plain = lists(&mut random, 200, 6, 30);
    let pairs: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..150).map(|i| (i % 7 != 0).then(|| vec![Some(i % 9), Some(i / 9)])),
        2,
    ));
    let views = {
        let values: ArrayRef = Arc::new(Int32Array::from_iter_values((0..60).map(|i| i % 23)));
        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        // Out of order, with shared values.
        let offsets: Vec<i32> = (0..100).map(|i| i * 37 % 50).collect();
        let sizes: Vec<i32> = (0..100).map(|i| i % 8).collect();
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(100, |i| i % 11 != 3));
        Arc::new(ListViewArray::new(
            field,
            offsets.into(),
            sizes.into(),
            values,
            Some(nulls),
        )) as ArrayRef
    };
    let large = cast(
        &plain,
        &DataType::LargeList(Arc::new(Field::new_list_field(DataType::Int32, true))),
    )
    .unwrap();
    let kinds = [
        plain.slice(3, 150),
        large,
        pairs.slice(5, 120),
        pairs,
        views.slice(10, 80),
        views,
    ];
    let elements: ArrayRef = Arc::new(
        (0..140)
            .map(|i| (i % 6 != 1).then_some(i % 40 - 2))
            .collect::<Int32Array>(),
    );
    for kind in &kinds {
        for (indexed, probe) in [
            (kind, &plain),
            (&plain, kind),
            (kind, &elements),
            (&elements, kind),
        ] {
            let sides = Sides {
                indexed: Arc::clone(indexed),
                probe: Arc::clone(probe),
                groups: None,
                shingles: None,
            };
            for predicate in [
                SetPredicate::Overlap(1),
                SetPredicate::Contains(Side::Left),
                SetPredicate::Contains(Side::Right),
            ] {
                let by = [None, Some(SetTechnique::Signature)];
                compare(&host, &gpu, &sides, predicate.seen_from(Side::Left), &by);
            }
        }
    }
}

#[test]
fn large_sets_from_their_rarest_element() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(69);
    for (universe, least) in [(4_000, 900), (300_000, 900), (5_000, 2_000)] {
        parts_of_large_sets(&host, &gpu, &mut random, 150, universe, least);
    }
}

/// Sets so large that their signatures would be full: rows of bits, as wide as the universe and folded. Probe sets are
/// subsets of indexed ones, some with another element.
pub(crate) fn parts_of_large_sets(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    n: usize,
    universe: u64,
    least: usize,
) {
    let element = |random: &mut Random| {
        let number = random.below(universe);
        (number * random.below(universe) / universe) as i32
    };
    let indexed = (0..n).map(|i| (0..least + i % 400).map(|_| element(random)).collect());
    let indexed: Vec<Vec<i32>> = indexed.collect();
    let probe = indexed.iter().enumerate().map(|(i, set)| {
        let mut set: Vec<i32> = set.iter().copied().step_by(1 + i % 40).collect();
        if i % 3 == 0 {
            set.push(random.below(universe) as i32);
        }
        set
    });
    let probe: Vec<_> = probe.collect();
    let sides = Sides {
        indexed: numbers(indexed),
        probe: numbers(probe),
        groups: None,
        shingles: None,
    };
    let contains = SetPredicate::Contains(Side::Left).seen_from(Side::Left);
    compare(host, gpu, &sides, contains, &[Some(SetTechnique::Rarest)]);
    let with_itself = Sides {
        probe: Arc::clone(&sides.indexed),
        ..sides
    };
    compare(host, gpu, &with_itself, contains, &every_technique());
}

/// `universe` numbers `least`, `least + step`, …, and `more` further ones on the probe side.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub least: i64,
    pub step: i64,
    pub universe: u64,
    pub more: u64,
}

const fn elements(least: i64, step: i64, universe: u64, more: u64) -> Elements {
    Elements {
        least,
        step,
        universe,
        more,
    }
}

/// Consecutive, far apart, and around the limits of a type; the probe side with elements that the other side lacks, and
/// with none of the shared ones.
pub(crate) const ELEMENTS: [Elements; 6] = [
    elements(-20, 1, 50, 0),
    elements(-20, 1, 50, 9),
    elements(i64::MAX - 49, 1, 50, 0),
    elements(i64::MIN, 1, 50, 9),
    elements(1 << 40, 1 << 35, 60, 9),
    elements(0, 3, 400, 30),
];

/// Sets and elements whose numbers need 32 bits together, or one more.
#[test]
fn words_of_32_bits_and_of_more() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(71);
    let sets = (1 << 16) + 1;
    for universe in [(1 << 15) - 1, 1 << 15, (1 << 15) + 1] {
        // Every element occurs. Consecutive elements are their own ids; with a step of five there are gaps between
        // them.
        let dealt = |random: &mut Random, sets: usize, step: i32, duplicates: bool| {
            let mut lists = vec![vec![]; sets];
            for i in 0..sets.max(universe) {
                lists[i % sets].push((i % universe) as i32 * step);
            }
            for list in lists.iter_mut().step_by(3) {
                let more = random.below(universe as u64) as i32 * step;
                if duplicates || !list.contains(&more) {
                    list.push(more);
                }
            }
            if duplicates {
                let first = lists[0][0];
                lists[0].push(first);
            }
            numbers(lists)
        };
        for (step, duplicates) in [(1, true), (5, false), (5, true)] {
            let many = dealt(&mut random, sets, step, duplicates);
            let few = dealt(&mut random, 300, step, duplicates);
            for [indexed, probe] in [[&many, &few], [&few, &many]] {
                let sides = Sides {
                    indexed: Arc::clone(indexed),
                    probe: Arc::clone(probe),
                    groups: None,
                    shingles: None,
                };
                let test = SetPredicate::Overlap(1).seen_from(Side::Left);
                let by = [SetTechnique::Prefix, SetTechnique::InvertedIndex].map(Some);
                compare(&host, &gpu, &sides, test, &by);
            }
        }
    }
}

/// Lists of enough values that a bit for each rank sorts them, with universes around the ends of words and of blocks'
/// shares; then with a duplicate, and with an element that the other side lacks.
#[test]
fn long_lists_of_few_elements() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(72);
    for universe in [
        159, 160, 161, 255, 256, 257, 8_191, 8_192, 8_193, 16_385, 70_001,
    ] {
        long_lists(&host, &gpu, &mut random, 40, universe);
    }
    // Values without lists.
    let values = Int32Array::from_iter_values(0..1_000);
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    let lengths = arrow::buffer::OffsetBuffer::from_lengths([500, 500]);
    let nulls = NullBuffer::new_null(2);
    let none: ArrayRef = Arc::new(ListArray::new(
        field,
        lengths,
        Arc::new(values),
        Some(nulls),
    ));
    let some = numbers([(0..1_000).collect(), vec![3]]);
    for [indexed, probe] in [[&none, &some], [&some, &none]] {
        let sides = Sides {
            indexed: Arc::clone(indexed),
            probe: Arc::clone(probe),
            groups: None,
            shingles: None,
        };
        let test = SetPredicate::Overlap(1).seen_from(Side::Left);
        compare(&host, &gpu, &sides, test, &[None]);
    }
    // More sets than blocks.
    long_lists(&host, &gpu, &mut random, 1_200, 160);
}

pub(crate) fn long_lists(
    host: &HostDevice,
    gpu: &CudaDevice,
    random: &mut Random,
    sets: usize,
    universe: usize,
) {
    // Cyclic windows of the elements, shuffled: some have all elements, and some few or none.
    let list = |random: &mut Random, i: usize| -> Vec<i32> {
        let least = 128.max(universe / 64);
        let length = match i % 8 {
            0 => universe,
            1 => i % 3,
            _ => (2 * least + i % 77).min(universe),
        };
        let first = random.below(universe as u64) as usize;
        let mut list: Vec<i32> = (0..length)
            .map(|j| ((first + j) % universe) as i32)
            .collect();
        for at in (1..length).rev() {
            list.swap(at, random.below(at as u64 + 1) as usize);
        }
        list
    };
    let indexed: Vec<_> = (0..sets).map(|i| list(random, i)).collect();
    let probe: Vec<_> = (0..sets / 2).map(|i| list(random, i + 3)).collect();
    let (mut duplicate, mut more) = (probe.clone(), probe.clone());
    duplicate[0].push(probe[0][0]);
    more[0].push(-1);
    // A list with more values than there are distinct elements.
    let mut longer = probe.clone();
    longer[5].push(probe[5][0]);
    assert!(longer[5].len() > universe);
    for (indexed, probe) in [
        (&indexed, &probe),
        (&indexed, &duplicate),
        (&indexed, &more),
        (&duplicate, &indexed),
        (&indexed, &longer),
        (&longer, &indexed),
    ] {
        let sides = Sides {
            indexed: numbers(indexed.iter().cloned()),
            probe: numbers(probe.iter().cloned()),
            groups: None,
            shingles: None,
        };
        for predicate in [
            SetPredicate::degree(SetMeasure::Jaccard, 0.5, false).unwrap(),
            SetPredicate::Contains(Side::Left),
        ] {
            let by = [None, Some(SetTechnique::Intersect)];
            compare(host, gpu, &sides, predicate.seen_from(Side::Left), &by);
        }
    }
}

#[test]
fn lists_without_duplicates() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(70);
    for elements in ELEMENTS {
        for sides in lists_that_are_sets(&mut random, [300, 200], elements) {
            for predicate in predicates() {
                let test = predicate.seen_from(Side::Left);
                let by = [None, Some(SetTechnique::Prefix)];
                compare(&host, &gpu, &sides, test, &by);
            }
        }
    }
}

/// Lists that are sets already; and with one list that has a duplicate, on either side.
pub(crate) fn lists_that_are_sets(
    random: &mut Random,
    rows: [usize; 2],
    elements: Elements,
) -> [Sides; 3] {
    let Elements {
        least,
        step,
        universe,
        more,
    } = elements;
    let list = |random: &mut Random, universe: u64| {
        let length = random.below(12);
        let mut list: Vec<i64> = vec![];
        while list.len() < length as usize {
            let number = random.below(universe) * random.below(universe) / universe;
            let element = least.wrapping_add(step.wrapping_mul(number as i64));
            if !list.contains(&element) {
                list.push(element);
            }
        }
        list
    };
    let array = |lists: &[Vec<i64>]| -> ArrayRef {
        let lists = lists.iter().map(|l| Some(l.iter().map(|e| Some(*e))));
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
    };
    let indexed: Vec<_> = (0..rows[0]).map(|_| list(random, universe)).collect();
    let probe = (0..rows[1]).map(|_| list(random, universe + more));
    let probe: Vec<_> = probe.collect();
    let mut with_a_duplicate = probe.clone();
    with_a_duplicate.push(vec![least, least.wrapping_add(step), least]);
    [
        [&indexed, &probe],
        [&indexed, &with_a_duplicate],
        [&with_a_duplicate, &indexed],
    ]
    .map(|[a, b]| Sides {
        indexed: array(a),
        probe: array(b),
        groups: None,
        shingles: None,
    })
}
