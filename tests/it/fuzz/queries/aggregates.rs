//! Random aggregations: of tables, queries and joins, by expressions and by sets of columns.

use crate::fuzz::queries::writer::{Column, Kind, Relation, Site, Subqueries, Writer};

/// Groups at most, by which the rows of what reads them are counted.
const MOST_GROUPS: usize = 50;

impl Writer {
    pub fn grouped(&mut self, depth: usize) -> Relation {
        let (from, all) = self.grouped_source(depth);
        let site = Site::new(&all, Subqueries::Scalar);
        let filter = self.filter(Site::new(&all, Subqueries::All), 35);
        let n = self.draw.below(3);
        let keys = self.keys(site, n);
        let aggregates = self.aggregates(site, 4);
        let numbers: Vec<String> = (1..=n).map(|i| i.to_string()).collect();
        let group = match n {
            0 => String::new(),
            _ => format!(" GROUP BY {}", numbers.join(", ")),
        };
        let having = if self.draw.chance(25) {
            format!(" HAVING {}", self.having(site))
        } else {
            String::new()
        };
        let (listed, columns) = self.listed([keys, aggregates].concat());
        Relation {
            sql: format!("SELECT {listed} FROM {from}{filter}{group}{having}"),
            columns,
            rows: if n == 0 { 1 } else { MOST_GROUPS },
        }
    }

    /// An aggregation that may be fused with its join: keys of the side that is preserved, and arguments of one side each.
    pub fn fused(&mut self, depth: usize) -> Relation {
        let (left, right) = self.sides(depth);
        let kind = self
            .draw
            .one(&["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN"]);
        let on = self.join_condition(&left, &right);
        let (kept, padded) = if kind == "RIGHT JOIN" {
            (&right, &left)
        } else {
            (&left, &right)
        };
        let n = self.draw.below(3);
        let keys = self.keys(Site::new(&kept.columns, Subqueries::Scalar), n);
        let mut aggregates = vec![("count(*)".into(), Kind::Small)];
        for _ in 0..self.draw.below(3) + 1 {
            let side = if self.draw.chance(70) { padded } else { kept };
            let site = Site::new(&side.columns, Subqueries::Scalar);
            let value = self.expression(site, Kind::Small, 2);
            let (function, kind) = self.draw.one(&[
                ("sum", Kind::Small),
                ("min", Kind::Small),
                ("max", Kind::Small),
                ("count", Kind::Small),
                ("avg", Kind::Mean),
            ]);
            aggregates.push((format!("{function}({value})"), kind));
        }
        let numbers: Vec<String> = (1..=n).map(|i| i.to_string()).collect();
        let group = if n == 0 {
            String::new()
        } else {
            format!(" GROUP BY {}", numbers.join(", "))
        };
        let (listed, columns) = self.listed([keys, aggregates].concat());
        Relation {
            sql: format!(
                "SELECT {listed} FROM {} {kind} {} ON {on}{group}",
                left.sql, right.sql
            ),
            columns,
            rows: if n == 0 { 1 } else { MOST_GROUPS },
        }
    }

    /// A comparison of an aggregate with a constant, a subquery or another aggregate.
    fn having(&mut self, site: Site) -> String {
        let plain = Site::new(site.columns, Subqueries::None);
        let least = self.expression(Site::new(&[], Subqueries::Scalar), Kind::Small, 2);
        let (a, b) = (self.leaf(plain, Kind::Small), self.leaf(plain, Kind::Small));
        match self.draw.below(5) {
            0 => format!("count(*) > {least}"),
            1 => format!("sum({a}) >= {least} OR count({b}) = 0"),
            2 => format!("max({a}) <> min({b})"),
            3 => {
                let table = self.stored_table();
                format!(
                    "count(*) IN (SELECT {0}.id FROM {1})",
                    table.alias, table.sql
                )
            }
            _ => format!("avg({a}) > {least}"),
        }
    }

    /// Up to `n` aggregates.
    pub fn aggregates(&mut self, site: Site, n: usize) -> Vec<(String, Kind)> {
        let n = 1 + self.draw.below(n);
        (0..n).map(|_| self.aggregate(site)).collect()
    }

    fn aggregate(&mut self, site: Site) -> (String, Kind) {
        let kind = self.draw.one(&[
            Kind::Small,
            Kind::Small,
            Kind::Whole,
            Kind::Decimal,
            Kind::Text,
            Kind::Date,
        ]);
        let value = |writer: &mut Self, kind| writer.expression(site, kind, 2);
        let (function, kind) = match self.draw.below(14) {
            0 | 1 => ("count(*)".into(), Kind::Small),
            2 => (format!("count({})", value(self, kind)), Kind::Small),
            3 => (
                format!("count(DISTINCT {})", value(self, kind)),
                Kind::Small,
            ),
            4 | 5 => (format!("sum({})", value(self, Kind::Small)), Kind::Small),
            6 => (format!("sum({})", value(self, Kind::Whole)), Kind::Whole),
            7 => (format!("min({})", value(self, kind)), kind),
            8 => (format!("max({})", value(self, kind)), kind),
            9 => (format!("avg({})", value(self, Kind::Small)), Kind::Mean),
            // No sum and no minimum is a zero whose sign depends on the order of rows.
            10 => (
                format!("sum({} + 0.25)", value(self, Kind::Float)),
                Kind::Float,
            ),
            11 => (
                format!("min({} + 0.25)", value(self, Kind::Float)),
                Kind::Float,
            ),
            12 => (
                format!("sum(DISTINCT {})", value(self, Kind::Small)),
                Kind::Small,
            ),
            _ => {
                let condition = self.condition(site, 1);
                (format!("bool_or({condition})"), Kind::Bool)
            }
        };
        if self.draw.chance(20) {
            let condition = self.condition(site, 1);
            (format!("{function} FILTER (WHERE {condition})"), kind)
        } else {
            (function, kind)
        }
    }

    /// Grouping sets of tables and of joins of tables. No key may be constant: there DataFusion gives some groups twice.
    pub fn grouping_sets(&mut self) -> Relation {
        let left = self.stored_table();
        let mut from = left.sql.clone();
        let mut all: Vec<Column> = left.columns.clone();
        if self.draw.chance(50) {
            let right = self.stored_table();
            let (l, r) = (
                Site::new(&left.columns, Subqueries::None),
                Site::new(&right.columns, Subqueries::None),
            );
            let on = if self.draw.chance(50) {
                format!("{}.k = {}.k", left.alias, right.alias)
            } else {
                self.band(l, r)
            };
            let kind = self.draw.one(&["JOIN", "LEFT JOIN"]);
            from = format!("{from} {kind} {} ON {on}", right.sql);
            all.extend(right.columns);
        }
        let keys = [("g", Kind::Small), ("t", Kind::Text), ("d", Kind::Date)];
        let n = 1 + self.draw.below(keys.len());
        let keys: Vec<(String, Kind)> = keys[..n]
            .iter()
            .map(|(name, kind)| (format!("{}.{name}", left.alias), *kind))
            .collect();
        let names: Vec<&str> = keys.iter().map(|key| key.0.as_str()).collect();
        let by = names.join(", ");
        let sets = match self.draw.below(4) {
            0 => format!("ROLLUP ({by})"),
            1 => format!("CUBE ({by})"),
            2 => format!("GROUPING SETS (({by}), ({}), ())", names[0]),
            _ => format!(
                "GROUPING SETS (({}), ({by}), ({}), ())",
                names[n - 1],
                names[0]
            ),
        };
        let aggregates = self.aggregates(Site::new(&all, Subqueries::Scalar), 3);
        let (listed, columns) = self.listed([keys, aggregates].concat());
        Relation {
            sql: format!("SELECT {listed} FROM {from} GROUP BY {sets}"),
            columns,
            rows: MOST_GROUPS,
        }
    }
}
