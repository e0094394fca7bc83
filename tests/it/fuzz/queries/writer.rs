//! What a random query is written with: kinds of values, names, and how much may still be written.

use crate::fuzz::queries::draw::Draw;

/// What values a column has. Rows must not depend on the order of other rows, so no kind has a NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// BIGINT of so few digits that sums are exact as floats.
    Small,
    /// BIGINT up to the ends of the type, where sums wrap.
    Whole,
    /// DOUBLE with few binary digits: sums do not depend on their order. Zero has both signs.
    Float,
    /// DOUBLE that comes from a division, which is compared and never added.
    Mean,
    Decimal,
    Text,
    Date,
    Bool,
    /// BIGINT[]
    List,
}

/// The kinds by which rows can be ordered, joined and grouped.
pub(super) const ORDERED: [Kind; 7] = [
    Kind::Small,
    Kind::Small,
    Kind::Whole,
    Kind::Float,
    Kind::Decimal,
    Kind::Text,
    Kind::Date,
];

#[derive(Debug, Clone)]
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
}

impl Column {
    pub fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
        }
    }
}

/// What `FROM` may name: a table, a view or a common table expression.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// At most as many rows.
    pub rows: usize,
    /// Whether it is a table with a unique column `id`.
    pub is_stored: bool,
}

/// A whole query.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub sql: String,
    pub columns: Vec<Column>,
    pub rows: usize,
}

/// An item of `FROM`; its columns are qualified.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub sql: String,
    pub alias: String,
    pub columns: Vec<Column>,
    pub rows: usize,
}

/// Where an expression stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub columns: &'a [Column],
    pub subqueries: Subqueries,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subqueries {
    None,
    /// Scalar ones without outer columns.
    Scalar,
    /// Scalar ones.
    Correlated,
    /// Also `IN` and `EXISTS`.
    All,
}

pub(super) struct Writer {
    pub draw: Draw,
    pub tables: Vec<Table>,
    /// Subqueries in expressions that may still be written.
    pub subqueries: usize,
    /// Items of `FROM` that may still be written.
    pub leaves: usize,
    /// Whether no volatile expression may stand here: DataFusion refuses orders by them.
    pub is_steady: bool,
    /// The values of `$1`, `$2`, …; `None` where no parameter may stand.
    pub parameters: Option<Vec<String>>,
    names: usize,
}

impl Writer {
    pub fn new(draw: Draw, tables: Vec<Table>) -> Self {
        Self {
            draw,
            tables,
            subqueries: 3,
            leaves: 5,
            is_steady: false,
            parameters: None,
            names: 0,
        }
    }

    /// A name that occurs nowhere else.
    pub fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Any table, view or common table expression.
    pub fn table(&mut self) -> Source {
        let n = self.draw.below(self.tables.len());
        self.named(n)
    }

    /// A table with a unique column `id`.
    pub fn stored_table(&mut self) -> Source {
        let stored = self.tables.iter().filter(|table| table.is_stored).count();
        let n = self.draw.below(stored);
        self.named(n)
    }

    fn named(&mut self, n: usize) -> Source {
        self.leaves = self.leaves.saturating_sub(1);
        let table = self.tables[n].clone();
        let alias = self.name("q");
        Source {
            sql: format!("{} AS {alias}", table.name),
            columns: qualified(&alias, &table.columns),
            alias,
            rows: table.rows,
        }
    }

    pub fn aliased(&mut self, relation: Relation) -> Source {
        let alias = self.name("q");
        Source {
            sql: format!("({}) AS {alias}", relation.sql),
            columns: qualified(&alias, &relation.columns),
            alias,
            rows: relation.rows,
        }
    }

    /// A kind that both sides have a column of, if one is found.
    pub fn common_kind(&mut self, left: Site, right: Site) -> Kind {
        for _ in 0..4 {
            let kind = self.draw.one(&ORDERED);
            let has = |site: Site| site.columns.iter().any(|column| column.kind == kind);
            if has(left) && has(right) {
                return kind;
            }
        }
        Kind::Small
    }

    /// `expressions` as a list of `SELECT`, with the columns that it makes.
    pub fn listed(&mut self, expressions: Vec<(String, Kind)>) -> (String, Vec<Column>) {
        let mut listed = vec![];
        let mut columns = vec![];
        for (sql, kind) in expressions {
            let name = self.name("c");
            listed.push(format!("{sql} AS {name}"));
            columns.push(Column { name, kind });
        }
        (listed.join(", "), columns)
    }
}

fn qualified(alias: &str, columns: &[Column]) -> Vec<Column> {
    let columns = columns.iter();
    columns
        .map(|column| Column::new(&format!("{alias}.{}", column.name), column.kind))
        .collect()
}

impl<'a> Site<'a> {
    pub fn new(columns: &'a [Column], subqueries: Subqueries) -> Self {
        Self {
            columns,
            subqueries,
        }
    }

    /// A column of a kind.
    pub fn column(&self, draw: &mut Draw, kind: Kind) -> Option<String> {
        let fitting: Vec<&Column> = self.columns.iter().filter(|c| c.kind == kind).collect();
        (!fitting.is_empty()).then(|| fitting[draw.below(fitting.len())].name.clone())
    }
}
