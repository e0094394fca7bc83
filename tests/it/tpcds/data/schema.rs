//! The tables and the types of their columns, as `schema.sql` has them.

/// A column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Int,
    Text,
    Date,
    /// Precision and scale.
    Decimal(u8, i8),
}

/// A table: its name, and its columns in order.
#[derive(Debug)]
pub(crate) struct Table {
    pub name: &'static str,
    pub columns: Vec<(&'static str, Type)>,
}

/// All tables.
pub(crate) fn tables() -> Vec<Table> {
    let statements = include_str!("../schema.sql").split("CREATE TABLE ").skip(1);
    statements.map(table).collect()
}

/// A statement without its first words.
fn table(statement: &'static str) -> Table {
    let (name, rest) = statement.split_once(" (").unwrap();
    let columns = rest.split_once("\n);").unwrap().0;
    // The comma in a decimal's type has no space behind it.
    let columns = columns.split([' ', '\n']).filter(|word| !word.is_empty());
    let words: Vec<&str> = columns.map(|word| word.trim_end_matches(',')).collect();
    let columns = words.chunks(2).map(|pair| (pair[0], type_of(pair[1])));
    Table {
        name,
        columns: columns.collect(),
    }
}

fn type_of(word: &str) -> Type {
    match word {
        "INT" => Type::Int,
        "VARCHAR" => Type::Text,
        "DATE" => Type::Date,
        decimal => {
            let digits = decimal.trim_start_matches("DECIMAL(").trim_end_matches(')');
            let (precision, scale) = digits.split_once(',').unwrap();
            Type::Decimal(precision.parse().unwrap(), scale.parse().unwrap())
        }
    }
}
