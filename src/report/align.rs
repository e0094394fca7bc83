//! Which nodes of two versions of a plan are the same.

/// Cells of the table of all pairs, at most: 64 MB.
const MOST_CELLS: usize = 1 << 24;

/// For each item of `after` the item of `before` that it is, by a longest common subsequence of both: nodes are put between others, or
/// dropped, but do not change places. Of several that it could be it is the first.
pub(super) fn align<T: PartialEq>(before: &[T], after: &[T]) -> Vec<Option<usize>> {
    let width = after.len() + 1;
    if width.saturating_mul(before.len() + 1) > MOST_CELLS {
        return in_order(before, after);
    }
    // The longest common subsequence of what is behind `i` and `j`.
    let mut longest = vec![0u32; (before.len() + 1) * width];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            longest[i * width + j] = match before[i] == after[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let mut found = vec![None; after.len()];
    let (mut i, mut j) = (0, 0);
    while i < before.len() && j < after.len() {
        if before[i] == after[j] {
            found[j] = Some(i);
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] > longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

/// For plans too long for a table of all pairs: each item is the next equal one.
fn in_order<T: PartialEq>(before: &[T], after: &[T]) -> Vec<Option<usize>> {
    let mut from = 0;
    let next = |item: &T| {
        let found = from + before[from..].iter().position(|known| known == item)?;
        from = found + 1;
        Some(found)
    };
    after.iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::{align, in_order};

    #[test]
    fn long_plans_are_matched_in_order() {
        let long = vec![1; 5_000];
        assert_eq!(
            align(&long, &long),
            (0..5_000).map(Some).collect::<Vec<_>>()
        );
        assert_eq!(
            in_order(&["a", "b", "c"], &["a", "x", "c"]),
            [Some(0), None, Some(2)]
        );
    }

    #[test]
    fn items_between_others_are_new() {
        assert_eq!(
            align(
                &["sort", "join", "scan", "scan"],
                &["merge", "sort", "down", "join", "up", "scan", "up", "scan"]
            ),
            [None, Some(0), None, Some(1), None, Some(2), None, Some(3)]
        );
    }

    #[test]
    fn items_that_are_gone_leave_the_others() {
        assert_eq!(
            align(&["a", "b", "c", "b"], &["a", "c"]),
            [Some(0), Some(2)]
        );
        // Two became one.
        assert_eq!(
            align(&["a", "b", "b", "c"], &["a", "up", "b", "c"]),
            [Some(0), None, Some(1), Some(3)]
        );
        assert_eq!(align::<u8>(&[], &[1]), [None]);
        assert_eq!(align(&[1], &[]), [None; 0]);
    }
}
