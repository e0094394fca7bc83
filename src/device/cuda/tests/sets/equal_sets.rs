//! Sets that repeat: equal ones share a position, and the matches are the host's.

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::encode::encoding;
use crate::device::cuda::sets::encode::equal_sets;
use crate::device::cuda::tests::sets::compare::{Sides, compare, lists};
use crate::device::cuda::tests::*;
use crate::device::data::results::SetCounting;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::ir::set_predicate::{SetMeasure, SetPredicate, SetTechnique};
use crate::ir::side::Side;

/// Enough for a GPU to look for equal sets.
const ROWS: usize = 4_200;

/// `n` lists like those of `few`, in other orders, and with repeated elements.
fn repeating(few: &ArrayRef, n: usize) -> ArrayRef {
    let few = few.as_list::<i32>();
    let rows = (0..n).map(|row| {
        let like = row * 7 % few.len();
        let elements = few.is_valid(like).then(|| few.value(like))?;
        let mut elements: Vec<_> = elements.as_primitive::<Int32Type>().iter().collect();
        let turns = row % elements.len().max(1);
        elements.rotate_left(turns);
        elements.extend_from_within(..(row % 2).min(elements.len()));
        Some(elements)
    });
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}

fn predicates() -> Vec<SetPredicate> {
    let degree = |measure, threshold| SetPredicate::degree(measure, threshold, false).unwrap();
    vec![
        degree(SetMeasure::Jaccard, 0.7),
        SetPredicate::Contains(Side::Left),
        SetPredicate::Overlap(4),
        degree(SetMeasure::Cosine, 0.8),
        SetPredicate::Contains(Side::Right),
        degree(SetMeasure::Dice, 0.9),
        degree(SetMeasure::Containment, 1.0),
    ]
}

/// Both sides and one, with and without groups; both sides the same.
#[test]
fn matches_of_sets_that_repeat() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(71);
    let few = lists(&mut random, 1_000, 7, 400);
    let same = repeating(&few, ROWS);
    let fewer = repeating(&few.slice(100, 890), ROWS + 9);
    let other = lists(&mut random, 300, 7, 400);
    let mut techniques = [
        SetTechnique::Prefix,
        SetTechnique::InvertedIndex,
        SetTechnique::Rarest,
        SetTechnique::Bitmap,
        SetTechnique::Signature,
    ]
    .into_iter();
    for (n, (indexed, probe)) in [
        (&same, &same),
        (&same, &fewer),
        (&fewer, &other),
        (&same, &same),
        (&other, &same),
    ]
    .into_iter()
    .enumerate()
    {
        let groups = (n % 2 == 1).then(|| {
            let ids = group_ids(&mut random, indexed.len(), 3);
            let others = match Arc::ptr_eq(indexed, probe) {
                true => ids.clone(),
                false => group_ids(&mut random, probe.len(), 3),
            };
            (ids, others, 3)
        });
        let sides = Sides {
            indexed: Arc::clone(indexed),
            probe: Arc::clone(probe),
            groups,
            shingles: None,
        };
        let test = predicates()[n].seen_from(Side::Left);
        compare(&host, &gpu, &sides, test, &[techniques.next()]);
    }
}

/// What is joined once: three sets, one of them empty, thousands of times.
#[test]
fn lists_of_few_sets_are_short() {
    let Some((host, gpu)) = reference_and_gpu() else {
        return;
    };
    let few: Vec<_> = [vec![], vec![1, 2, 3], vec![2, 3, 4, 5]]
        .into_iter()
        .map(|set: Vec<i32>| Some(set.into_iter().map(Some).collect::<Vec<_>>()))
        .collect();
    let few: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(few));
    let array = repeating(&few, ROWS);
    for predicate in predicates() {
        let test = predicate.seen_from(Side::Left);
        let counts = |device: &dyn Device| {
            let column = device.upload(from_ref(&array)).unwrap();
            let index = device.set_index(&column, None, &[], test, None, &column);
            let index = index.unwrap();
            assert_eq!(index.repeats, ROWS as u64 - 3);
            let found = device.set_search(&index, &column, None, &[]).unwrap();
            assert!(found.matches.len() <= 3 * ROWS);
            assert_eq!(found.tally.repeats, ROWS as u64 - 3);
            let occur = device.occurrences(&found.matches, &found.ranges, ROWS);
            let counted = device.set_count(&index, &column, None, SetCounting::Both);
            let counted = counted.unwrap();
            let by_row = device.row_counts(&counted.probe, &counted.counts, ROWS);
            [occur.unwrap(), counted.indexed.unwrap(), by_row.unwrap()]
                .map(|counts| device.read(&counts).unwrap().to_vec())
        };
        let [occur, indexed, probe] = counts(&gpu);
        assert_eq!(occur, indexed, "{test:?}");
        assert_eq!([occur, indexed, probe], counts(&host), "{test:?}");
    }
}

/// The set of each row: its group, size and elements.
fn by_row(gpu: &CudaDevice, sets: &Sets, rows: usize) -> Vec<Option<(u32, Vec<u32>)>> {
    let read = |words: &crate::device::cuda::runtime::memory::Memory, n: usize| {
        let mut bytes = vec![0; n * 4];
        gpu.stream.read_few(&mut bytes, words, 0).unwrap();
        let words = bytes.as_chunks().0.iter();
        words
            .map(|word| u32::from_le_bytes(*word))
            .collect::<Vec<_>>()
    };
    let (offsets, elements) = (
        read(&sets.offsets, sets.len + 1),
        read(&sets.elements, sets.entries),
    );
    let sizes = read(&sets.sizes, sets.len);
    let positions = match &sets.members {
        Some(members) => read(&members.positions, sets.rows.len()),
        None => (0..sets.len as u32).collect(),
    };
    let mut all = vec![None; rows];
    let ids = read(memory(&sets.rows).unwrap(), sets.rows.len());
    for (row, position) in ids.into_iter().zip(positions) {
        let position = position as usize;
        let set = &elements[offsets[position] as usize..offsets[position + 1] as usize];
        assert!(all[row as usize].is_none());
        all[row as usize] = Some((sizes[position], set.to_vec()));
    }
    all
}

/// Sets stay what they are, whatever their hashes are.
#[test]
fn hashes_decide_nothing() {
    let Some((_, gpu)) = reference_and_gpu() else {
        return;
    };
    let mut random = Random(72);
    let array = repeating(&lists(&mut random, 20, 7, 9), 300);
    let ids = on_gpu(&gpu, &group_ids(&mut random, 300, 4));
    let column = gpu.upload(from_ref(&array)).unwrap();
    for groups in [None, Some((&ids, 4))] {
        let (sets, _) = encoding::encode_indexed(&gpu, &column, groups, &[]).unwrap();
        let expected = by_row(&gpu, &sets, 300);
        let all_one = gpu.stream.zeroed(sets.len * 4, "hashes").unwrap();
        for hashes in [&all_one, &sets.sizes, memory(&sets.rows).unwrap()] {
            let shared = equal_sets::shared(&gpu.stream, &sets, hashes).unwrap();
            assert_eq!(by_row(&gpu, &shared, 300), expected);
            assert!(shared.len <= sets.len);
        }
        let one_size = equal_sets::shared(&gpu.stream, &sets, &all_one).unwrap();
        assert!(one_size.repeats() > 0);
    }
}
