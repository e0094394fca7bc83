//! The ten join types as SQL.

/// A join in SQL. Mark joins have no syntax: DataFusion plans EXISTS inside OR as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Join(&'static str),
    Exists,
    NotExists,
}

/// All of them; DataFusion swaps the sides of each when that puts the smaller one left.
pub(crate) const KINDS: [Kind; 10] = [
    Kind::Join("INNER"),
    Kind::Join("LEFT"),
    Kind::Join("RIGHT"),
    Kind::Join("FULL"),
    Kind::Join("LEFT SEMI"),
    Kind::Join("RIGHT SEMI"),
    Kind::Join("LEFT ANTI"),
    Kind::Join("RIGHT ANTI"),
    Kind::Exists,
    Kind::NotExists,
];

/// DataFusion's names, as EXPLAIN shows them.
pub(crate) const JOIN_TYPES: [&str; 10] = [
    "Inner",
    "Left",
    "Right",
    "Full",
    "LeftSemi",
    "RightSemi",
    "LeftAnti",
    "RightAnti",
    "LeftMark",
    "RightMark",
];

impl Kind {
    /// A join of `left` as r with `right` as s; `columns` come out of each side that comes out.
    pub fn sql(&self, left: &str, right: &str, columns: &[&str], condition: &str) -> String {
        let of = |side: &str| -> String {
            let list = columns.iter().map(|c| format!("{side}.{c} AS {side}_{c}"));
            list.collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Join(kind) => {
                let columns = match kind.split_once(' ') {
                    Some(("LEFT", _)) => of("r"),
                    Some(_) => of("s"),
                    None => format!("{}, {}", of("r"), of("s")),
                };
                format!("SELECT {columns} FROM {left} r {kind} JOIN {right} s ON {condition}")
            }
            Self::Exists | Self::NotExists => {
                let not = if *self == Self::NotExists { "NOT " } else { "" };
                format!(
                    "SELECT {} FROM {left} r WHERE {not}EXISTS (SELECT 1 FROM {right} s WHERE {condition}) OR r.id % 5 = 0",
                    of("r")
                )
            }
        }
    }
}
