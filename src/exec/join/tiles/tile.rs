//! [`Tile`]: a rectangle of the join matrix, and how it is cut.

use std::ops::Range;

use crate::exec::memory::shrink::Halving;
use crate::ir::side::Side;

/// The number of rows down to which the side of a tile is halved. If device memory does not hold these rows, nothing
/// useful fits.
pub(crate) const LEAST_ROWS: usize = 64;

/// The same for rows with sets, one of which may have millions of elements.
pub(crate) const LEAST_SETS: usize = 1;

/// Some rows of a left chunk by some rows of the current right chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    /// The only pass in which its matches are found, of those of [`Passes`](crate::exec::join::tiles::passes::Passes); `None` if they are all found in
    /// one, or if its passes are not chosen yet.
    pub pass: Option<usize>,
    pub left_chunk: usize,
    pub left: Range<usize>,
    pub right: Range<usize>,
}

impl Tile {
    /// The tile cut across its longer side; `None` if that has at most `least` rows. With `right_first` it is cut across the right side as
    /// long as that has more.
    pub(crate) fn halves(&self, least: usize, right_first: bool) -> Option<(Self, Self)> {
        let (left, right) = (self.left.len(), self.right.len());
        if left.max(right) <= least {
            return None;
        }
        let (side, rows) = match left >= right && !(right_first && right > least) {
            true => (Side::Left, &self.left),
            false => (Side::Right, &self.right),
        };
        let [first, second] = Halving::down_to(least).halves(rows)?;
        Some((self.with(side, first), self.with(side, second)))
    }

    /// The tile cut across `side` into at most `parts` parts, equally long except for the last. None is empty, unless
    /// the tile is.
    pub(crate) fn cut(&self, side: Side, parts: usize) -> Vec<Self> {
        let rows = self.rows(side);
        if rows.is_empty() {
            return vec![self.clone()];
        }
        let len = rows.len().div_ceil(parts.max(1));
        let begins = rows.clone().step_by(len);
        begins
            .map(|begin| self.with(side, begin..(begin + len).min(rows.end)))
            .collect()
    }

    pub(crate) fn rows(&self, side: Side) -> &Range<usize> {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// The tile with other rows of `side`.
    pub(crate) fn with(&self, side: Side, rows: Range<usize>) -> Self {
        let mut tile = self.clone();
        match side {
            Side::Left => tile.left = rows,
            Side::Right => tile.right = rows,
        }
        tile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(left: Range<usize>, right: Range<usize>) -> Tile {
        Tile {
            pass: None,
            left_chunk: 3,
            left,
            right,
        }
    }

    #[test]
    fn halves_share_the_longer_side() {
        let (first, second) = tile(10..111, 5..80).halves(LEAST_ROWS, false).unwrap();
        assert_eq!(first, tile(10..60, 5..80));
        assert_eq!(second, tile(60..111, 5..80));
        assert_eq!(tile(0..64, 7..71).halves(LEAST_ROWS, false), None);
        assert!(tile(0..64, 7..71).halves(LEAST_SETS, false).is_some());
        assert_eq!(tile(3..4, 0..1).halves(LEAST_SETS, false), None);
        let (first, second) = tile(10..111, 5..80).halves(LEAST_ROWS, true).unwrap();
        assert_eq!(first, tile(10..111, 5..42));
        assert_eq!(second, tile(10..111, 42..80));
        let (first, _) = tile(10..111, 5..60).halves(LEAST_ROWS, true).unwrap();
        assert_eq!(first, tile(10..60, 5..60));
    }

    #[test]
    fn parts_cover_each_row_once() {
        for rows in [0, 1, 2, 7, 100] {
            for parts in [0, 1, 2, 3, 99, 1000] {
                let whole = tile(0..5, 40..40 + rows);
                let cut = whole.cut(Side::Right, parts);
                assert!(cut.len() <= parts.max(1));
                assert!(cut.iter().all(|part| part.left == whole.left));
                let mut next = 40;
                for part in &cut {
                    assert_eq!(part.right.start, next);
                    assert!(!part.right.is_empty() || rows == 0);
                    next = part.right.end;
                }
                assert_eq!(next, 40 + rows);
            }
        }
    }
}
