//! [`Slices`]: the right rows of tiles that are joined with all left rows together.

use std::ops::Range;

use crate::exec::join::tiles::tile::Tile;

/// Rows of the current right chunk that are joined with all left rows together, the next ones last.
#[derive(Debug, Default)]
pub(crate) struct Slices(pub(crate) Vec<Range<usize>>);

impl Slices {
    /// Covers the right rows of `tiles`.
    pub(crate) fn of(tiles: impl Iterator<Item = Tile>) -> Self {
        let mut rows: Vec<Range<usize>> = tiles.map(|tile| tile.right).collect();
        rows.sort_by_key(|rows| (rows.start, rows.end));
        let mut merged: Vec<Range<usize>> = vec![];
        for rows in rows {
            match merged.last_mut() {
                Some(last) if rows.start < last.end => last.end = last.end.max(rows.end),
                _ => merged.push(rows),
            }
        }
        merged.reverse();
        Self(merged)
    }
}
