//! Which nodes of two versions of a plan are the same.

/// For each item of `after` the item of `before` that it is, by a longest common subsequence of both: nodes are put between others, or
/// dropped, but do not change places. Of several that it could be it is the first.
pub(super) fn align<T: PartialEq>(before: &[T], after: &[T]) -> Vec<Option<usize>> {
    let width = after.len() + 1;
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

#[cfg(test)]
mod tests {
    use super::align;

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
