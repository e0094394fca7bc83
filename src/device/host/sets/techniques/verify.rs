//! Verification: the overlap of two ascending sets, as far as the threshold needs it (\[B\] 4.1.2).

/// The ratio of lengths from which binary searches in the longer set are faster than a merge: OBS in \[B\].
pub(crate) const SEARCH_FROM: usize = 16;

/// The overlap, or `None` if it is less than `least`.
pub(crate) fn overlap_of_at_least(a: &[u32], b: &[u32], least: usize) -> Option<usize> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.len() < least {
        return None;
    }
    match long.len() / SEARCH_FROM.min(long.len().max(1)) > short.len() {
        true => searched(short, long, least),
        false => merged(short, long, least),
    }
}

/// By a merge, which ends when too few elements remain.
fn merged(a: &[u32], b: &[u32], least: usize) -> Option<usize> {
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        if shared + (a.len() - i).min(b.len() - j) < least {
            return None;
        }
        // Sixteen steps between two tests.
        for _ in 0..16 {
            if i == a.len() || j == b.len() {
                break;
            }
            let order = a[i].cmp(&b[j]);
            shared += usize::from(order.is_eq());
            i += usize::from(order.is_le());
            j += usize::from(order.is_ge());
        }
    }
    (shared >= least).then_some(shared)
}

/// By a search in `long` for each element of `short`, each from the previous result.
fn searched(short: &[u32], long: &[u32], least: usize) -> Option<usize> {
    let (mut from, mut shared) = (0, 0);
    for (i, element) in short.iter().enumerate() {
        if shared + short.len() - i < least {
            return None;
        }
        from += gallop(&long[from..], *element);
        match long.get(from) {
            None => break,
            Some(found) => shared += usize::from(found == element),
        }
    }
    (shared >= least).then_some(shared)
}

/// The number of leading elements of `set` below `element`.
pub(crate) fn gallop(set: &[u32], element: u32) -> usize {
    let mut step = 1;
    while step <= set.len() && set[step - 1] < element {
        step *= 2;
    }
    let from = step / 2;
    from + set[from..step.min(set.len())].partition_point(|e| *e < element)
}

/// The overlap of two ascending sets of any lengths.
pub(crate) fn overlap(a: &[u32], b: &[u32]) -> usize {
    overlap_of_at_least(a, b, 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_of_all_lengths() {
        let set = |len: usize, step: usize, from: usize| -> Vec<u32> {
            (0..len).map(|i| (from + i * step) as u32).collect()
        };
        for (len_a, len_b) in [
            (0, 0),
            (0, 5),
            (3, 5),
            (5, 200),
            (40, 37),
            (1, 1000),
            (100, 100),
        ] {
            for (step_a, step_b) in [(1, 1), (2, 3), (7, 1), (1, 5)] {
                let (a, b) = (set(len_a, step_a, 3), set(len_b, step_b, 0));
                let shared = a.iter().filter(|e| b.contains(e)).count();
                for least in 0..=len_a + 1 {
                    let expected = (shared >= least).then_some(shared);
                    assert_eq!(overlap_of_at_least(&a, &b, least), expected);
                    assert_eq!(overlap_of_at_least(&b, &a, least), expected);
                }
                assert_eq!(overlap(&a, &b), shared);
            }
        }
    }

    #[test]
    fn gallop_finds_the_partition_point() {
        for len in 0..40u32 {
            let set: Vec<u32> = (0..len).map(|i| i * 2).collect();
            for element in 0..90 {
                assert_eq!(gallop(&set, element), set.partition_point(|e| *e < element));
            }
        }
    }
}
