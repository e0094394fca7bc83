//! A parallel sort of row ids by group and key. Splitters from a sample cut the order into parts; every task deals its rows out to the parts,
//! and every part is sorted by itself: while it is in a core's cache, and digit by digit.

use rayon::prelude::*;

/// Rows of a part, about. Two copies of it are in a core's cache.
const PART_ROWS: usize = 1 << 16;
/// Rows of the sample for each splitter.
const SAMPLE: usize = 32;
/// Rows that a task deals out at a time, at least.
const TASK_ROWS: usize = 1 << 16;
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

/// A row with what it is sorted by: first its group, then its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SortRow {
    pub(crate) key: u64,
    pub(crate) group: u32,
    pub(crate) row: u32,
}

impl SortRow {
    fn order(&self) -> (u32, u64) {
        (self.group, self.key)
    }
}

/// The rows in order, and how many there are of each group.
#[derive(Debug, Default)]
pub(crate) struct SortedRows {
    pub(crate) rows: Vec<u32>,
    pub(crate) keys: Vec<u64>,
    /// Groups in ascending order with their numbers of rows. A group may be there several times, one behind the other.
    pub(crate) groups: Vec<(u32, u32)>,
}

/// Sorts the rows `row_at(0) .. row_at(rows - 1)`, those that there are, by group, key and row id. `with_keys`: whether the keys are wanted.
pub(crate) fn sorted(
    rows: usize,
    row_at: impl Fn(usize) -> Option<SortRow> + Sync,
    with_keys: bool,
) -> SortedRows {
    let cuts = Cuts::new(splitters(rows, &row_at));
    let task_rows = (rows / (4 * rayon::current_num_threads()).max(1)).max(TASK_ROWS);
    let dealt: Vec<Vec<Vec<SortRow>>> = (0..rows.div_ceil(task_rows))
        .into_par_iter()
        .map(|task| {
            let rows = task * task_rows..((task + 1) * task_rows).min(rows);
            deal(rows.filter_map(&row_at), &cuts, task_rows)
        })
        .collect();
    let parts = cuts.parts();
    let lengths = (0..parts).map(|part| dealt.iter().map(|task| task[part].len()).sum::<usize>());
    let lengths: Vec<usize> = lengths.collect();
    let total = lengths.iter().sum();
    let mut sorted = SortedRows {
        rows: vec![0; total],
        keys: vec![0; if with_keys { total } else { 0 }],
        groups: vec![],
    };
    let mut slices = vec![];
    let (mut rows, mut keys) = (&mut sorted.rows[..], &mut sorted.keys[..]);
    for length in lengths {
        let (of_rows, rest) = rows.split_at_mut(length);
        let (of_keys, rest_of_keys) = keys.split_at_mut(if with_keys { length } else { 0 });
        slices.push((of_rows, of_keys));
        (rows, keys) = (rest, rest_of_keys);
    }
    let groups: Vec<Vec<(u32, u32)>> = slices
        .into_par_iter()
        .enumerate()
        .map(|(part, (rows, keys))| {
            let mut of_part = Vec::with_capacity(rows.len());
            for task in &dealt {
                of_part.extend_from_slice(&task[part]);
            }
            sort_part(&mut of_part);
            for (at, row) in rows.iter_mut().zip(&of_part) {
                *at = row.row;
            }
            for (at, row) in keys.iter_mut().zip(&of_part) {
                *at = row.key;
            }
            let runs = of_part.chunk_by(|a, b| a.group == b.group);
            runs.map(|run| (run[0].group, run.len() as u32)).collect()
        })
        .collect();
    sorted.groups = groups.into_iter().flatten().collect();
    sorted
}

/// Where the parts begin, but for the first one: rows spread evenly over all.
fn splitters(rows: usize, row_at: &(impl Fn(usize) -> Option<SortRow> + Sync)) -> Vec<(u32, u64)> {
    let parts = rows.div_ceil(PART_ROWS);
    if parts < 2 {
        return vec![];
    }
    let wanted = parts * SAMPLE;
    let at = |i: usize| (i as u64 * rows as u64 / wanted as u64) as usize;
    let sample = (0..wanted).filter_map(|i| row_at(at(i)));
    let mut sample: Vec<(u32, u64)> = sample.map(|row| row.order()).collect();
    sample.sort_unstable();
    let mut splitters: Vec<(u32, u64)> = (1..parts)
        .filter_map(|part| sample.get(part * sample.len() / parts).copied())
        .collect();
    splitters.dedup();
    splitters
}

/// The first row of each part but the first one, in order.
struct Cuts {
    splitters: Vec<(u32, u64)>,
    /// For each group up to the last one of a splitter, how many splitters are of lesser groups; and how many there are, last.
    before: Vec<u32>,
}

impl Cuts {
    fn new(splitters: Vec<(u32, u64)>) -> Self {
        let groups = splitters.last().map_or(0, |(group, _)| *group as usize + 1);
        let mut before = vec![0; groups + 1];
        for (group, _) in &splitters {
            before[*group as usize + 1] += 1;
        }
        for group in 0..groups {
            before[group + 1] += before[group];
        }
        Self { splitters, before }
    }

    fn parts(&self) -> usize {
        self.splitters.len() + 1
    }

    /// The part of a row: behind the splitters that are not greater. Most groups have no splitter, so that a look tells.
    fn part(&self, row: &SortRow) -> usize {
        let group = row.group as usize;
        let Some([first, end]) = self.before.get(group..group + 2) else {
            return self.splitters.len();
        };
        let (first, end) = (*first as usize, *end as usize);
        let of_group = &self.splitters[first..end];
        first + of_group.partition_point(|(_, key)| *key <= row.key)
    }
}

/// The rows of each part, in their order.
fn deal(rows: impl Iterator<Item = SortRow>, cuts: &Cuts, task_rows: usize) -> Vec<Vec<SortRow>> {
    // Parts of a sample are not quite equal.
    let capacity = task_rows / cuts.parts() * 5 / 4 + 16;
    let mut dealt: Vec<Vec<SortRow>> = (0..cuts.parts())
        .map(|_| Vec::with_capacity(capacity))
        .collect();
    for row in rows {
        dealt[cuts.part(&row)].push(row);
    }
    dealt
}

/// Sorts by group and key; stable. Digits on which all rows agree are skipped, and all digits of keys that ascend.
fn sort_part(rows: &mut Vec<SortRow>) {
    if rows.len() < DIGITS {
        rows.sort_by_key(SortRow::order);
        return;
    }
    let first = rows[0];
    let (mut keys, mut groups) = (0, 0);
    for row in rows.iter() {
        keys |= row.key ^ first.key;
        groups |= row.group ^ first.group;
    }
    let mut scratch = vec![SortRow::default(); rows.len()];
    if !rows.is_sorted_by_key(|row| row.key) {
        by_digits(rows, &mut scratch, keys, |row| row.key);
    }
    by_digits(rows, &mut scratch, u64::from(groups), |row| {
        u64::from(row.group)
    });
}

/// Sorts by a word of which these bits vary.
fn by_digits(
    rows: &mut Vec<SortRow>,
    scratch: &mut Vec<SortRow>,
    varying: u64,
    word: impl Fn(&SortRow) -> u64,
) {
    for shift in (0..u64::BITS).step_by(DIGIT_BITS as usize) {
        if (varying >> shift) & (DIGITS as u64 - 1) == 0 {
            continue;
        }
        let digit = |row: &SortRow| (word(row) >> shift) as usize & (DIGITS - 1);
        let mut place = [0usize; DIGITS];
        for row in rows.iter() {
            place[digit(row)] += 1;
        }
        let mut start = 0;
        for p in &mut place {
            start += std::mem::replace(p, start);
        }
        for row in rows.iter() {
            let p = &mut place[digit(row)];
            scratch[*p] = *row;
            *p += 1;
        }
        std::mem::swap(rows, scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_a_plain_sort() {
        let mut state = 7u64;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 20) % below
        };
        for n in [0, 1, 2, 255, 256, 5_000, PART_ROWS, 3 * PART_ROWS + 17] {
            for (groups, keys, ascending) in [
                (1, u64::MAX >> 20, false),
                (300, 50, false),
                (300, 1 << 40, true),
                (70_000, 1 << 20, false),
                (3, 1, true),
            ] {
                let rows: Vec<Option<SortRow>> = (0..n)
                    .map(|i| {
                        let row = SortRow {
                            key: match ascending {
                                true => i as u64 * (keys / n.max(1) as u64),
                                false => random(keys) << 3,
                            },
                            group: random(groups) as u32,
                            row: i as u32,
                        };
                        (random(10) > 0).then_some(row)
                    })
                    .collect();
                let mut expected: Vec<SortRow> = rows.iter().flatten().copied().collect();
                expected.sort_by_key(|row| (row.group, row.key, row.row));
                for with_keys in [true, false] {
                    let sorted = sorted(n, |i| rows[i], with_keys);
                    let of_rows: Vec<u32> = expected.iter().map(|row| row.row).collect();
                    assert_eq!(sorted.rows, of_rows, "{n} {groups} {keys}");
                    let of_keys: Vec<u64> = expected.iter().map(|row| row.key).collect();
                    assert_eq!(sorted.keys, if with_keys { of_keys } else { vec![] });
                    let runs = sorted.groups.iter();
                    let of_groups: Vec<u32> = runs
                        .flat_map(|(group, rows)| std::iter::repeat_n(*group, *rows as usize))
                        .collect();
                    let groups: Vec<u32> = expected.iter().map(|row| row.group).collect();
                    assert_eq!(of_groups, groups);
                }
            }
        }
    }
}
