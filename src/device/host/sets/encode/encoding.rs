//! Encoding: sets of elements of any type become ascending lists of numbers.
//!
//! ```text
//!  values of all rows ─► numbers by equality ─► by (group, number) if the join has equal keys, too
//!        ─► duplicates removed ─► ranked by frequency: the rarest element is 0 ─► CSR, sets ordered by group and size,
//!           equal sets once if many are equal
//! ```
//!
//! The indexed side defines the numbers ([`Domain`]). Elements that only the other side has count for a set's size
//! alone. An element is numbered together with its group, so sets of different groups share no element.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::keys::NO_GROUP;
use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::dictionary::Dictionary;
use crate::device::host::sets::encode::element_ids::WordNumbers;
use crate::device::host::sets::encode::members::{Members, hash, repay_sharing};
use crate::error::{BowtieError, Result};
use crate::list_sets::elements::{Element, Elements, Lists};

/// The number of an element that no indexed set has.
const UNKNOWN: u32 = u32::MAX;

/// Rows that one task encodes.
const TASK_ROWS: usize = 1 << 12;

/// The sets of one side, ordered by group and size, then by row or, if many are equal, by hash.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    /// The row ids of each position. Rows with a NULL list or without a group have no position.
    pub(crate) members: Members,
    pub(crate) groups: Vec<u32>,
    /// The number of distinct elements, including those without a number.
    pub(crate) sizes: Vec<u32>,
    /// Position `p` has the elements `elements[offsets[p] .. offsets[p + 1]]`, in ascending order: the rarest first.
    pub(crate) offsets: Vec<u32>,
    pub(crate) elements: Vec<u32>,
    _lease: Option<Lease>,
}

/// Temporary bytes of encoding: for an element, its number and its slots in lists that are concatenated; for a row, its
/// entries of [`Raw`], the range of its elements, and their hash.
const ELEMENT_BYTES: u64 = 20;
const ROW_BYTES: u64 = 72;
/// Temporary bytes for a distinct element: its count, its rank, its frequency and its slot in the order by frequency.
const DIFFERENT_BYTES: u64 = 16;

/// The bytes of a row's entries in [`Sets`].
const SET_BYTES: u64 = 20;

fn working_bytes(rows: usize, lists: &Lists) -> u64 {
    lists.values.len() as u64 * ELEMENT_BYTES + rows as u64 * ROW_BYTES
}

impl Sets {
    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The numbered elements of a position.
    pub(crate) fn get(&self, position: usize) -> &[u32] {
        &self.elements[self.offsets[position] as usize..self.offsets[position + 1] as usize]
    }

    /// The number of distinct elements of a position.
    pub(crate) fn size(&self, position: usize) -> u64 {
        u64::from(self.sizes[position])
    }

    /// The number of a position's elements that no indexed set has.
    pub(crate) fn unknown(&self, position: usize) -> usize {
        self.sizes[position] as usize - self.get(position).len()
    }
}

/// The numbers of elements.
#[derive(Debug)]
pub(crate) struct Domain {
    dictionary: Dictionary,
    /// The numbers of (group, number in the dictionary).
    grouped: Option<WordNumbers>,
    /// The rank by frequency of each number.
    ranks: Vec<u32>,
    _lease: Lease,
}

/// The encoded indexed side.
pub(crate) struct Encoded {
    pub(crate) sets: Sets,
    pub(crate) domain: Domain,
    /// The number of distinct elements.
    pub(crate) universe: usize,
}

/// Sets in row order, before ranking and sorting.
#[derive(Default)]
struct Raw {
    rows: Vec<u32>,
    groups: Vec<u32>,
    sizes: Vec<u32>,
    ends: Vec<usize>,
    elements: Vec<u32>,
}

/// Encodes `rows` rows of the indexed side.
pub(crate) fn encode(
    budget: &Arc<Budget>,
    rows: usize,
    lists: &Lists,
    groups: Option<&[u32]>,
    check_cancelled: CancelCheck<'_>,
) -> Result<Encoded> {
    let _working = budget.lease(working_bytes(rows, lists), "sets")?;
    let converter = Elements::converter(lists.values.data_type())?;
    let (elements, lease) = Elements::leased(budget, &lists.values, converter.as_ref())?;
    let values = lists.values.len();
    let (dictionary, numbers) =
        Dictionary::of(budget, &elements, values, converter, check_cancelled)?;
    drop((elements, lease));
    let mut universe = numbers.iter().map(|n| *n as usize + 1).max().unwrap_or(0);
    check_cancelled()?;
    let (mut raw, grouped) = match groups {
        None => {
            let number = |_: u32, at: usize| numbers.get(at).copied();
            (read(rows, lists, None, &number, check_cancelled)?, None)
        }
        Some(groups) => {
            let mut known = WordNumbers::new(budget);
            let mut pace = Pace::new(check_cancelled);
            for (row, group) in groups.iter().enumerate().take(rows) {
                let span = lists.get(row).filter(|_| *group != NO_GROUP);
                for at in span.unwrap_or(0..0) {
                    let fresh = known.len() as u32;
                    known.number(tuple(*group, numbers[at]), fresh)?;
                    pace.step(1)?;
                }
            }
            universe = known.len();
            let number = |group: u32, at: usize| known.get(tuple(group, numbers[at]));
            let raw = read(rows, lists, Some(groups), &number, check_cancelled)?;
            (raw, Some(known))
        }
    };
    drop(numbers);
    let _different = budget.lease(universe as u64 * DIFFERENT_BYTES, "elements of sets")?;
    let mut counts = vec![0u32; universe];
    for numbers in raw.elements.chunks(Pace::STEPS) {
        check_cancelled()?;
        for number in numbers {
            counts[*number as usize] += 1;
        }
    }
    let mut by_frequency: Vec<u32> = (0..universe as u32).collect();
    by_frequency.retain(|number| counts[*number as usize] > 0);
    by_frequency.par_sort_unstable_by_key(|number| (counts[*number as usize], *number));
    let mut ranks = vec![UNKNOWN; universe];
    for (rank, number) in by_frequency.iter().enumerate() {
        ranks[*number as usize] = rank as u32;
    }
    check_cancelled()?;
    raw.elements
        .par_iter_mut()
        .for_each(|element| *element = ranks[*element as usize]);
    let ranks_lease = budget.lease(universe as u64 * 4, "elements of sets")?;
    Ok(Encoded {
        sets: raw.arrange(budget, check_cancelled)?,
        domain: Domain {
            dictionary,
            grouped,
            ranks,
            _lease: ranks_lease,
        },
        universe: by_frequency.len(),
    })
}

fn tuple(group: u32, number: u32) -> u64 {
    u64::from(group) << 32 | u64::from(number)
}

/// The sets of `rows` rows. `number` maps a group and the index of a value to the element's number.
fn read(
    rows: usize,
    lists: &Lists,
    groups: Option<&[u32]>,
    number: &(dyn Fn(u32, usize) -> Option<u32> + Sync),
    check_cancelled: CancelCheck<'_>,
) -> Result<Raw> {
    in_tasks(
        rows,
        lists,
        groups,
        check_cancelled,
        |group, span, elements| {
            let first = elements.len();
            for at in span {
                let number = number(group, at);
                elements.push(number.ok_or_else(|| {
                    BowtieError::Internal("an element of a set has no number".into())
                })?);
            }
            dedup_from(elements, first);
            Ok((elements.len() - first) as u32)
        },
    )
}

impl Domain {
    /// Encodes `rows` rows of the other side.
    pub(crate) fn encode(
        &self,
        budget: &Arc<Budget>,
        rows: usize,
        lists: &Lists,
        groups: Option<&[u32]>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Sets> {
        let _working = budget.lease(working_bytes(rows, lists), "sets")?;
        let converter = self.dictionary.converter();
        let (values, _lease) = Elements::leased(budget, &lists.values, converter)?;
        check_cancelled()?;
        let raw = in_tasks(
            rows,
            lists,
            groups,
            check_cancelled,
            |group, span, elements| {
                let first = elements.len();
                // By index, which is smaller than the element.
                let mut unknown: Vec<usize> = vec![];
                for at in span {
                    match self.number(group, values.get(at)) {
                        UNKNOWN => unknown.push(at),
                        number => elements.push(number),
                    }
                }
                dedup_from(elements, first);
                unknown.sort_unstable_by(|a, b| values.get(*a).cmp(&values.get(*b)));
                unknown.dedup_by(|a, b| values.get(*a) == values.get(*b));
                Ok((elements.len() - first + unknown.len()) as u32)
            },
        )?;
        raw.arrange(budget, check_cancelled)
    }

    fn number(&self, group: u32, element: Element<'_>) -> u32 {
        let Some(number) = self.dictionary.find(element) else {
            return UNKNOWN;
        };
        let number = match &self.grouped {
            None => Some(number),
            Some(known) => known.get(tuple(group, number)),
        };
        let rank = number.and_then(|number| self.ranks.get(number as usize));
        rank.copied().unwrap_or(UNKNOWN)
    }
}

fn dedup_from(elements: &mut Vec<u32>, first: usize) {
    elements[first..].sort_unstable();
    let mut kept = first;
    for at in first..elements.len() {
        if at == first || elements[at] != elements[kept - 1] {
            elements[kept] = elements[at];
            kept += 1;
        }
    }
    elements.truncate(kept);
}

/// The sets of rows that have one, in parallel. `set` appends a set's elements and returns its size.
fn in_tasks(
    rows: usize,
    lists: &Lists,
    groups: Option<&[u32]>,
    check_cancelled: CancelCheck<'_>,
    set: impl Fn(u32, Range<usize>, &mut Vec<u32>) -> Result<u32> + Sync,
) -> Result<Raw> {
    let tasks: Vec<usize> = (0..rows).step_by(TASK_ROWS).collect();
    let parts: Vec<Raw> = tasks
        .into_par_iter()
        .map(|from| {
            check_cancelled()?;
            let mut part = Raw::default();
            for row in from..(from + TASK_ROWS).min(rows) {
                let group = groups.map_or(0, |groups| groups[row]);
                let Some(span) = lists.get(row).filter(|_| group != NO_GROUP) else {
                    continue;
                };
                let size = set(group, span, &mut part.elements)?;
                part.rows.push(row as u32);
                part.groups.push(group);
                part.sizes.push(size);
                part.ends.push(part.elements.len());
            }
            Ok(part)
        })
        .collect::<Result<_>>()?;
    let sum = |len: fn(&Raw) -> usize| parts.iter().map(len).sum();
    let (rows, elements): (usize, usize) =
        (sum(|part| part.rows.len()), sum(|part| part.elements.len()));
    let mut all = Raw {
        rows: Vec::with_capacity(rows),
        groups: Vec::with_capacity(rows),
        sizes: Vec::with_capacity(rows),
        ends: Vec::with_capacity(rows),
        elements: Vec::with_capacity(elements),
    };
    for part in parts {
        let first = all.elements.len();
        all.rows.extend(part.rows);
        all.groups.extend(part.groups);
        all.sizes.extend(part.sizes);
        all.ends
            .extend(part.ends.into_iter().map(|end| first + end));
        all.elements.extend(part.elements);
    }
    match u32::try_from(all.elements.len()) {
        Ok(_) => Ok(all),
        // Offsets count no more: fewer rows do.
        Err(_) => Err(BowtieError::MustSplit {
            what: "chunk of sets",
            size: all.elements.len() as u64,
            most: u64::from(u32::MAX),
            unit: "elements",
        }),
    }
}

impl Raw {
    fn arrange(mut self, budget: &Arc<Budget>, check_cancelled: CancelCheck<'_>) -> Result<Sets> {
        let (len, elements) = (self.rows.len(), self.elements.len());
        let bytes = elements as u64 * 4 + len as u64 * SET_BYTES + 4;
        let lease = budget.lease(bytes, "sets")?;
        let span = |i: usize| match i {
            0 => 0..self.ends[0],
            i => self.ends[i - 1]..self.ends[i],
        };
        // Ranking changed the order of the indexed side's elements.
        let spans: Vec<Range<usize>> = (0..self.rows.len()).map(span).collect();
        let mut rest = self.elements.as_mut_slice();
        let mut parts = Vec::with_capacity(spans.len());
        for span in &spans {
            let (part, behind) = rest.split_at_mut(span.len());
            parts.push(part);
            rest = behind;
        }
        let mut hashes = vec![0; len];
        parts
            .par_chunks_mut(TASK_ROWS / 4)
            .zip(hashes.par_chunks_mut(TASK_ROWS / 4))
            .enumerate()
            .try_for_each(|(task, (parts, hashes))| {
                let mut pace = Pace::new(check_cancelled);
                let parts = parts.iter_mut().zip(hashes).zip(task * (TASK_ROWS / 4)..);
                parts.into_iter().try_for_each(|((part, hashed), i)| {
                    part.sort_unstable();
                    *hashed = hash(self.groups[i], self.sizes[i], part);
                    pace.step(part.len())
                })
            })?;
        let shared = repay_sharing(&hashes);
        let mut order: Vec<u32> = (0..len as u32).collect();
        order.par_sort_unstable_by_key(|i| {
            let i = *i as usize;
            let hash = if shared { hashes[i] } else { 0 };
            (self.groups[i], self.sizes[i], hash, self.rows[i])
        });
        let mut sets = Sets {
            members: Members::with_capacity(len, shared),
            groups: Vec::with_capacity(len),
            sizes: Vec::with_capacity(len),
            offsets: Vec::with_capacity(len + 1),
            elements: Vec::with_capacity(elements),
            _lease: Some(lease),
        };
        sets.offsets.push(0);
        let are_equal = |i: usize, j: usize| {
            (self.groups[i], self.sizes[i], hashes[i]) == (self.groups[j], self.sizes[j], hashes[j])
                && self.elements[spans[i].clone()] == self.elements[spans[j].clone()]
        };
        let mut last: Option<usize> = None;
        let mut pace = Pace::new(check_cancelled);
        for i in order {
            let i = i as usize;
            pace.step(spans[i].len() + 1)?;
            // Elements without a number match none, so that how many there are is all that counts.
            if shared && last.is_some_and(|last| are_equal(last, i)) {
                sets.members.add(self.rows[i]);
                continue;
            }
            last = Some(i);
            sets.members.begin(self.rows[i]);
            sets.groups.push(self.groups[i]);
            sets.sizes.push(self.sizes[i]);
            sets.elements
                .extend_from_slice(&self.elements[spans[i].clone()]);
            sets.offsets.push(sets.elements.len() as u32);
        }
        Ok(sets)
    }
}

#[cfg(test)]
mod tests;
