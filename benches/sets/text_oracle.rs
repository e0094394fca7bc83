//! The expected near-duplicates among titles, computed without any engine, exactly: each title is the set of its windows
//! of five bytes, rarest first. Two sets that are similar enough share one of their first elements, as many as they may
//! have beyond those that they must share; so only sets that do are compared.

use std::cmp::Ordering;

use arrow::array::{Array, StringArray};
use rayon::prelude::*;

use super::oracle::Pair;
use super::support::answer::Expected;

/// Bytes of a shingle.
const WINDOW: usize = 5;
/// The least Jaccard similarity, in tenths.
const TENTHS: usize = 8;

/// The rows of a pair, the lesser one first.
type RowPair = (u32, u32);

/// The number of pairs, and the sum of their second rows.
pub fn pairs(titles: &StringArray) -> Expected {
    let pairs = near_duplicates(titles);
    Expected {
        rows: pairs.len() as u64,
        sum: Some(pairs.iter().map(|(_, second)| i64::from(*second)).sum()),
    }
}

/// The number of titles that are in a pair, and the sum over them of the least row that a chain of pairs leads to.
pub fn clusters(titles: &StringArray) -> Expected {
    let mut next: Vec<u32> = (0..titles.len() as u32).collect();
    let mut paired = vec![false; titles.len()];
    for (first, second) in near_duplicates(titles) {
        paired[first as usize] = true;
        paired[second as usize] = true;
        let (first, second) = (least(&mut next, first), least(&mut next, second));
        next[first.max(second) as usize] = first.min(second);
    }
    let (mut rows, mut sum) = (0, 0);
    for row in (0..titles.len()).filter(|row| paired[*row]) {
        rows += 1;
        sum += i64::from(least(&mut next, row as u32));
    }
    Expected {
        rows,
        sum: Some(sum),
    }
}

/// The end of a row's chain, which is halved on the way.
fn least(next: &mut [u32], mut row: u32) -> u32 {
    while next[row as usize] != row {
        next[row as usize] = next[next[row as usize] as usize];
        row = next[row as usize];
    }
    row
}

fn near_duplicates(titles: &StringArray) -> Vec<RowPair> {
    let sets = rarest_first(titles);
    let firsts = sets.par_iter().enumerate().flat_map_iter(|(row, set)| {
        let must_share = (TENTHS * set.len()).div_ceil(10);
        let first = &set[..(set.len() - must_share + 1).min(set.len())];
        first.iter().map(move |element| (*element, row as u32))
    });
    let mut holders: Vec<(u64, u32)> = firsts.collect();
    holders.par_sort_unstable();
    let of_element = holders.par_chunk_by(|one, other| one.0 == other.0);
    let pairs = of_element.flat_map_iter(|holders| {
        let element = holders[0].0;
        let mut pairs: Vec<RowPair> = vec![];
        for (i, &(_, first)) in holders.iter().enumerate() {
            for &(_, second) in &holders[i + 1..] {
                let sets = [&sets[first as usize][..], &sets[second as usize][..]];
                if are_similar(sets, element) {
                    pairs.push((first, second));
                }
            }
        }
        pairs
    });
    pairs.collect()
}

/// The distinct shingles of each title as ascending numbers: above the five bytes, how many titles have the shingle.
fn rarest_first(titles: &StringArray) -> Vec<Vec<u64>> {
    let shingles = |row: usize| {
        let windows = titles.value(row).as_bytes().windows(WINDOW);
        let number = |window: &[u8]| {
            window
                .iter()
                .fold(0_u64, |of, byte| (of << 8) | u64::from(*byte))
        };
        let mut set: Vec<u64> = windows.map(number).collect();
        set.sort_unstable();
        set.dedup();
        set
    };
    let mut sets: Vec<Vec<u64>> = (0..titles.len()).into_par_iter().map(shingles).collect();
    let mut all = sets.concat();
    all.par_sort_unstable();
    let counted: Vec<(u64, u64)> = all
        .chunk_by(|one, other| one == other)
        .map(|equal| (equal[0], equal.len() as u64))
        .collect();
    sets.par_iter_mut().for_each(|set| {
        for element in set.iter_mut() {
            let at = counted.partition_point(|(shingle, _)| *shingle < *element);
            *element |= counted[at].1 << (8 * WINDOW);
        }
        set.sort_unstable();
    });
    sets
}

/// Whether two sets are similar enough and `element` is the first one that they share, so that a pair is found once.
fn are_similar(sets: [&[u64]; 2], element: u64) -> bool {
    let [one, other] = sets;
    let must_share = (TENTHS * (one.len() + other.len())).div_ceil(10 + TENTHS);
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < one.len() && j < other.len() {
        if shared + (one.len() - i).min(other.len() - j) < must_share {
            return false;
        }
        match one[i].cmp(&other[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                if shared == 0 && one[i] != element {
                    return false;
                }
                shared += 1;
                i += 1;
                j += 1;
            }
        }
    }
    let pair = Pair {
        shared: shared as u64,
        first: one.len() as u64,
        second: other.len() as u64,
    };
    pair.jaccard(TENTHS as u64)
}
