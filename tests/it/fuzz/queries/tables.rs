//! The tables of one case, as queries: a failure shows them, and they can be run anywhere.

use crate::fuzz::queries::draw::Draw;
use crate::fuzz::queries::writer::{Column, Kind, Table};

/// Name and kind of every column. `id` is unique; all others may be NULL.
const COLUMNS: [(&str, Kind); 12] = [
    ("id", Kind::Small),
    ("g", Kind::Small),
    ("k", Kind::Small),
    ("lo", Kind::Small),
    ("hi", Kind::Small),
    ("n", Kind::Whole),
    ("x", Kind::Float),
    ("m", Kind::Decimal),
    ("t", Kind::Text),
    ("d", Kind::Date),
    ("b", Kind::Bool),
    ("l", Kind::List),
];

pub(super) const WORDS: [&str; 8] = [
    "",
    "a",
    "ab",
    "b",
    "é",
    "ba",
    "aab",
    "a text past the inlined twelve",
];

/// Boundary integers, some of which meet when they wrap.
pub(super) const BOUNDARIES: [&str; 5] = [
    "9223372036854775807",
    "(-9223372036854775807 - 1)",
    "-9223372036854775807",
    "4611686018427387904",
    "-2147483648",
];

/// The types that the columns are cast to, in their order.
const TYPES: [&str; 12] = [
    "BIGINT",
    "BIGINT",
    "BIGINT",
    "BIGINT",
    "BIGINT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(12, 2)",
    "VARCHAR",
    "DATE",
    "BOOLEAN",
    "BIGINT[]",
];

fn list(draw: &mut Draw) -> String {
    let length = draw.below(5);
    let elements: Vec<String> = (0..length)
        .map(|_| {
            if draw.chance(8) {
                "NULL".into()
            } else {
                draw.below(7).to_string()
            }
        })
        .collect();
    format!("CAST(make_array({}) AS BIGINT[])", elements.join(", "))
}

fn cell(draw: &mut Draw, column: &str, row: usize) -> String {
    if column == "id" {
        return row.to_string();
    }
    if draw.chance(12) {
        return "NULL".into();
    }
    match column {
        "g" => draw.below(4).to_string(),
        "k" => draw.below(9).to_string(),
        "lo" => draw.between(-3, 20).to_string(),
        "hi" => draw.between(0, 26).to_string(),
        "n" if draw.chance(40) => draw.one(&BOUNDARIES).into(),
        "n" => draw.between(-2, 6).to_string(),
        "x" if draw.chance(10) => "CAST('-0.0' AS DOUBLE)".into(),
        "x" => format!("{:?}", draw.between(-6, 12) as f64 / 4.0),
        "m" => format!("{:.2}", draw.between(-500, 900) as f64 / 100.0),
        "t" => format!("'{}'", draw.one(&WORDS)),
        "d" => format!("DATE '2024-02-{:02}'", draw.between(20, 29)),
        "b" => draw.chance(50).to_string(),
        "l" => list(draw),
        other => unreachable!("{other} is no column"),
    }
}

/// A table, and the query of its rows.
pub(super) fn table(draw: &mut Draw, name: &str) -> (Table, String) {
    let rows = match draw.below(10) {
        0 => 0,
        1 => 1,
        2 => draw.below(41),
        _ => 3 + draw.below(17),
    };
    let lines: Vec<String> = (0..rows.max(1))
        .map(|row| {
            let cells: Vec<String> = COLUMNS
                .iter()
                .map(|(column, _)| cell(draw, column, row))
                .collect();
            format!("({})", cells.join(", "))
        })
        .collect();
    let selected: Vec<String> = COLUMNS
        .iter()
        .zip(TYPES)
        .enumerate()
        .map(|(i, ((name, _), data_type))| {
            format!("CAST(column{} AS {data_type}) AS {name}", i + 1)
        })
        .collect();
    let empty = if rows == 0 { " WHERE false" } else { "" };
    let query = format!(
        "SELECT {} FROM (VALUES {}) AS v{empty}",
        selected.join(", "),
        lines.join(", ")
    );
    let columns = COLUMNS.map(|(name, kind)| Column::new(name, kind)).to_vec();
    let table = Table {
        name: name.into(),
        columns,
        rows,
        is_stored: true,
    };
    (table, query)
}
