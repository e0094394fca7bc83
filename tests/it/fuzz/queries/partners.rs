//! Queries that keep some partners of each row: by `row_number()` and `rank()`, `QUALIFY`, `LATERAL`, and scalar subqueries with a limit.

use crate::fuzz::queries::relations::ordered;
use crate::fuzz::queries::writer::{Column, Kind, Relation, Site, Source, Subqueries, Writer};

impl Writer {
    /// Rows that are numbered for each row of one side, of which the first ones are kept.
    pub fn partners(&mut self, depth: usize) -> Relation {
        let (left, by) = if self.draw.chance(50) {
            let table = self.stored_table();
            let by = format!("{}.{}", table.alias, self.draw.one(&["id", "id", "g"]));
            (table, by)
        } else {
            self.numbered(depth)
        };
        let right = self.stored_table();
        let kind = self.draw.one(&["JOIN", "JOIN", "LEFT JOIN"]);
        let on = self.partner_condition(&left, &right);
        let key = self.partner_key(&left, &right);
        let is_ranked = self.draw.chance(25);
        let descending = self.draw.one(&["", " DESC"]);
        // Partners that tie are told apart, or the row that is kept does not tell which one it was.
        let is_total = self.draw.chance(70);
        let (function, order) = match (is_ranked, is_total) {
            (true, _) => ("rank()", key.clone()),
            (false, true) => {
                let left_order = ordered(&left.columns);
                let mut order = vec![format!("{key}{descending}"), format!("{}.id", right.alias)];
                order.extend(left_order.into_iter().map(|column| column.name));
                ("row_number()", order.join(", "))
            }
            (false, false) => ("row_number()", format!("{key}{descending}")),
        };
        let number = format!("{function} OVER (PARTITION BY {by} ORDER BY {order})");
        let mut kept = vec![(key, Kind::Small)];
        if is_total || is_ranked {
            let both = [left.columns.as_slice(), right.columns.as_slice()].concat();
            let both = Site::new(&both, Subqueries::None);
            kept.extend(self.expressions(both, 4));
        } else if by.ends_with(".id") {
            kept.push((by.clone(), Kind::Small));
        }
        let from = format!("{} {kind} {} ON {on}", left.sql, right.sql);
        let k = self.draw.one(&[1, 1, 1, 2, 3]);
        let (listed, columns) = self.listed(kept);
        let rows = left.rows * right.rows.max(1);
        let sql = if self.draw.chance(35) {
            format!("SELECT {listed} FROM {from} QUALIFY {number} <= {k}")
        } else {
            let n = self.name("n");
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let names = names.join(", ");
            let test = match k {
                1 => self.draw.one(&["= 1", "<= 1", "< 2"]).to_string(),
                k => format!("<= {k}"),
            };
            format!(
                "SELECT {names} FROM (SELECT {listed}, {number} AS {n} FROM {from}) AS p{n} WHERE {n} {test}"
            )
        };
        Relation { sql, columns, rows }
    }

    /// A source whose rows have numbers that no other part of the query reads, with the name of the numbers.
    fn numbered(&mut self, depth: usize) -> (Source, String) {
        let source = self.source(depth);
        let mut columns = source.columns.clone();
        columns.truncate(8);
        let columns = columns.into_iter().map(|c| (c.name, c.kind)).collect();
        let (listed, columns) = self.listed(columns);
        let number = self.name("n");
        let relation = Relation {
            sql: format!(
                "SELECT {listed}, row_number() OVER () AS {number} FROM {}",
                source.sql
            ),
            columns,
            rows: source.rows,
        };
        let source = self.aliased(relation);
        let by = format!("{}.{number}", source.alias);
        (source, by)
    }

    fn partner_condition(&mut self, left: &Source, right: &Source) -> String {
        let (l, r) = (
            Site::new(&left.columns, Subqueries::None),
            Site::new(&right.columns, Subqueries::None),
        );
        match self.draw.below(4) {
            0 => self.join_condition(left, right),
            1 => self.band(l, r),
            2 => self.inequality(l, r),
            _ => {
                let (a, b) = (self.leaf(l, Kind::Small), self.leaf(l, Kind::Small));
                let alias = &right.alias;
                let operator = self.draw.one(&["<=", "<", ">="]);
                format!("{alias}.k = {a} AND {alias}.lo {operator} {b}")
            }
        }
    }

    /// What partners are ordered by: a column, or a distance.
    fn partner_key(&mut self, left: &Source, right: &Source) -> String {
        let column = self.draw.one(&["lo", "hi", "k"]);
        let key = format!("{}.{column}", right.alias);
        if self.draw.chance(65) {
            return key;
        }
        let l = Site::new(&left.columns, Subqueries::None);
        let of = self.leaf(l, Kind::Small);
        format!("abs({key} - {of})")
    }

    /// `LATERAL` with an order and a limit, or a scalar subquery with them in the list of `SELECT`.
    pub fn lateral(&mut self, depth: usize) -> Relation {
        let left = self.source(depth);
        let right = self.stored_table();
        let inner = Site::new(&right.columns, Subqueries::None);
        let matched = self.partner_condition(&left, &right);
        let key = self.partner_key(&left, &right);
        let id = format!("{}.id", right.alias);
        let order = format!("{key}{}, {id}", self.draw.one(&["", " DESC"]));
        if self.draw.chance(25) {
            let value = self.leaf_column(&right, Kind::Small);
            let first = format!(
                "(SELECT {value} FROM {} WHERE {matched} ORDER BY {order} LIMIT 1)",
                right.sql
            );
            let mut listed = self.expressions(Site::new(&left.columns, Subqueries::None), 3);
            listed.push((first, Kind::Small));
            let (listed, columns) = self.listed(listed);
            return Relation {
                sql: format!("SELECT {listed} FROM {}", left.sql),
                columns,
                rows: left.rows,
            };
        }
        let values = self.expressions(inner, 3);
        let (listed, made) = self.listed(values);
        let is_padded = self.draw.chance(35);
        let limit = self.draw.one(&["1", "1", "2", "3", "0"]);
        let offset = if !is_padded && self.draw.chance(20) {
            " OFFSET 1"
        } else {
            ""
        };
        let alias = self.name("q");
        let partners = format!(
            "LATERAL (SELECT {listed} FROM {} WHERE {matched} ORDER BY {order} LIMIT {limit}{offset}) AS {alias}",
            right.sql
        );
        let from = match (is_padded, self.draw.chance(50)) {
            (true, _) => format!("{} LEFT JOIN {partners} ON true", left.sql),
            (false, true) => format!("{} CROSS JOIN {partners}", left.sql),
            (false, false) => format!("{}, {partners}", left.sql),
        };
        let made = made.into_iter();
        let made = made.map(|column| Column::new(&format!("{alias}.{}", column.name), column.kind));
        let both: Vec<Column> = left.columns.iter().cloned().chain(made).collect();
        let expressions = self.expressions(Site::new(&both, Subqueries::None), 4);
        let (listed, columns) = self.listed(expressions);
        Relation {
            sql: format!("SELECT {listed} FROM {from}"),
            columns,
            rows: left.rows * 3,
        }
    }

    fn leaf_column(&mut self, source: &Source, kind: Kind) -> String {
        let site = Site::new(&source.columns, Subqueries::None);
        let column = site.column(&mut self.draw, kind);
        column.unwrap_or_else(|| format!("{}.id", source.alias))
    }
}
