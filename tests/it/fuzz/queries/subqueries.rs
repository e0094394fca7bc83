//! Scalar subqueries: of constants, of tables and of small queries, with outer columns and without.

use crate::fuzz::queries::writer::{Kind, Relation, Site, Source, Subqueries, Writer};

impl Writer {
    /// What a subquery reads: a table, or now and then a join or an aggregation of tables.
    pub fn subquery_source(&mut self) -> Source {
        if self.leaves < 2 || self.draw.chance(75) {
            return self.table();
        }
        let held = std::mem::take(&mut self.subqueries);
        let relation = self.relation(0);
        self.subqueries = held;
        self.aliased(relation)
    }

    /// A subquery of one column of this kind, and of at most one row.
    pub fn scalar_subquery(&mut self, site: Site, kind: Kind) -> String {
        self.subqueries -= 1;
        if kind == Kind::Small && self.draw.chance(20) {
            let (a, b) = (self.draw.between(0, 5), self.draw.between(2, 9));
            let of = self.draw.one(&["min", "max"]);
            let name = self.name("v");
            return format!("(SELECT {of}(column1) FROM (VALUES ({a}), ({b})) AS {name})");
        }
        let source = self.subquery_source();
        let inner = Site::new(&source.columns, Subqueries::None);
        let from = &source.sql;
        let own = if self.draw.chance(40) {
            format!(" WHERE {}", self.condition(inner, 1))
        } else {
            String::new()
        };
        match kind {
            Kind::Small | Kind::Whole | Kind::Decimal | Kind::Text | Kind::Date => {}
            Kind::Float => {
                let value = self.leaf(inner, kind);
                // A sum of zeros of one sign may have either sign.
                return format!("(SELECT sum({value} + 0.25) FROM {from}{own})");
            }
            Kind::Mean => {
                let value = self.leaf(inner, Kind::Small);
                return format!("(SELECT avg({value}) FROM {from}{own})");
            }
            Kind::Bool => return format!("((SELECT count(*) FROM {from}{own}) > 3)"),
            Kind::List => return format!("make_array((SELECT count(*) FROM {from}{own}), 2)"),
        }
        let value = self.leaf(inner, kind);
        let may_correlate = matches!(site.subqueries, Subqueries::Correlated | Subqueries::All);
        match self.draw.below(4) {
            0 if kind == Kind::Small => format!("(SELECT count(*) FROM {from}{own})"),
            1 => {
                let first = self.first_value(&source, &value, &own);
                first.unwrap_or_else(|| format!("(SELECT max({value}) FROM {from}{own})"))
            }
            2 if may_correlate => {
                let matched = self.equal_columns(site, inner);
                format!("(SELECT max({value}) FROM {from} WHERE {matched})")
            }
            _ => {
                let of = self.draw.one(&["min", "max"]);
                format!("(SELECT {of}({value}) FROM {from}{own})")
            }
        }
    }

    /// The first value in the order of all values.
    fn first_value(&mut self, source: &Source, value: &str, own: &str) -> Option<String> {
        let is_column = source.columns.iter().any(|column| column.name == value);
        let order = self.draw.one(&["", " DESC"]);
        let from = &source.sql;
        is_column
            .then(|| format!("(SELECT {value} FROM {from}{own} ORDER BY {value}{order} LIMIT 1)"))
    }

    /// DataFusion has plans for scalar subqueries with outer columns in equalities alone.
    fn equal_columns(&mut self, outer: Site, inner: Site) -> String {
        let kind = self.draw.one(&[Kind::Small, Kind::Small, Kind::Text]);
        let column = inner.column(&mut self.draw, kind);
        match (column, outer.column(&mut self.draw, kind)) {
            (Some(a), Some(b)) => format!("{a} = {b}"),
            _ => self.condition(inner, 1),
        }
    }

    /// A query of the lines of constants.
    pub fn constants(&mut self) -> Relation {
        let rows = 1 + self.draw.below(4);
        let lines: Vec<String> = (0..rows)
            .map(|_| {
                format!(
                    "({}, {})",
                    self.draw.between(0, 8),
                    self.constant(Kind::Text)
                )
            })
            .collect();
        let name = self.name("v");
        let (listed, columns) = self.listed(vec![
            ("column1".into(), Kind::Small),
            ("column2".into(), Kind::Text),
        ]);
        Relation {
            sql: format!(
                "SELECT {listed} FROM (VALUES {}) AS {name}",
                lines.join(", ")
            ),
            columns,
            rows,
        }
    }
}
