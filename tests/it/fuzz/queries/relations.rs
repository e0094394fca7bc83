//! Random queries whose results are inputs of others: projections, joins, aggregations, set operations, limits and windows.

use crate::fuzz::queries::writer::{Column, Kind, Relation, Site, Source, Subqueries, Writer};

/// A join of more pairs reads less of its sides: what a query costs must not depend on luck.
const MOST_PAIRS: usize = 4_000;

#[derive(Debug, Clone, Copy)]
enum Form {
    Project,
    Join,
    SemiJoin,
    Group,
    Fused,
    SetValues,
    Sets,
    Distinct,
    Combine,
    Limit,
    Window,
    Partners,
    Lateral,
    Volatile,
    Constants,
}

const FORMS: [(usize, Form); 15] = [
    (3, Form::Project),
    (5, Form::Join),
    (2, Form::SemiJoin),
    (4, Form::Group),
    (4, Form::Fused),
    (2, Form::SetValues),
    (1, Form::Sets),
    (1, Form::Distinct),
    (3, Form::Combine),
    (2, Form::Limit),
    (2, Form::Window),
    (2, Form::Partners),
    (2, Form::Lateral),
    (2, Form::Volatile),
    (1, Form::Constants),
];

impl Writer {
    /// A query with at most `depth` levels of queries below it.
    pub fn relation(&mut self, depth: usize) -> Relation {
        match self.draw.weighted(&FORMS) {
            Form::Project => self.project(depth),
            Form::Join => self.joined(depth),
            Form::SemiJoin => self.semi_joined(depth),
            Form::Group => self.grouped(depth),
            Form::Fused => self.fused(depth),
            Form::SetValues => self.set_values(),
            Form::Sets => self.grouping_sets(),
            Form::Distinct => self.distinct(depth),
            Form::Combine => self.combined(depth),
            Form::Limit => self.limited(depth),
            Form::Window => self.windowed(depth),
            Form::Partners => self.partners(depth),
            Form::Lateral => self.lateral(depth),
            Form::Volatile => self.volatile(depth),
            Form::Constants => self.constants(),
        }
    }

    /// An item of `FROM`: a table or a query.
    pub fn source(&mut self, depth: usize) -> Source {
        if depth == 0 || self.leaves < 2 || self.draw.chance(30) {
            return self.table();
        }
        let relation = self.relation(depth - 1);
        self.aliased(relation)
    }

    fn project(&mut self, depth: usize) -> Relation {
        let source = self.source(depth);
        let site = Site::new(&source.columns, Subqueries::All);
        let mut expressions = self.expressions(site, 4);
        // DataFusion refuses it here.
        if self.subqueries > 0 && self.draw.chance(4) {
            let test = self.subquery_condition(site);
            expressions.push((format!("CASE WHEN {test} THEN 1 ELSE 2 END"), Kind::Small));
        }
        let (listed, columns) = self.listed(expressions);
        let filter = self.filter(site, 70);
        Relation {
            sql: format!("SELECT {listed} FROM {}{filter}", source.sql),
            columns,
            rows: source.rows,
        }
    }

    /// Up to `n` expressions of any kind, the first one a number.
    pub fn expressions(&mut self, site: Site, n: usize) -> Vec<(String, Kind)> {
        let more = 1 + self.draw.below(n);
        let mut kinds = vec![Kind::Small];
        for _ in 0..more {
            kinds.push(match self.draw.below(8) {
                0 => Kind::List,
                1 => Kind::Mean,
                2 => Kind::Bool,
                _ => self.common_kind(site, site),
            });
        }
        // DataFusion has mark joins below filters only.
        let site = match site.subqueries {
            Subqueries::All => Site::new(site.columns, Subqueries::Correlated),
            _ => site,
        };
        let kinds = kinds.into_iter();
        kinds
            .map(|kind| (self.expression(site, kind, 2), kind))
            .collect()
    }

    /// `WHERE` and a condition, in so many percent of all calls.
    pub fn filter(&mut self, site: Site, percent: usize) -> String {
        if self.draw.chance(percent) {
            format!(" WHERE {}", self.condition(site, 2))
        } else {
            String::new()
        }
    }

    fn joined(&mut self, depth: usize) -> Relation {
        let (from, columns, rows) = self.any_join(depth);
        let site = Site::new(&columns, Subqueries::All);
        let expressions = self.expressions(site, 5);
        let (listed, columns) = self.listed(expressions);
        let filter = self.filter(site, 45);
        Relation {
            sql: format!("SELECT {listed} FROM {from}{filter}"),
            columns,
            rows,
        }
    }

    /// A join as `FROM` has it, its columns and its rows.
    fn any_join(&mut self, depth: usize) -> (String, Vec<Column>, usize) {
        let kind = self.draw.one(&[
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
        ]);
        self.join(kind, depth)
    }

    fn join(&mut self, kind: &str, depth: usize) -> (String, Vec<Column>, usize) {
        let (left, right) = self.sides(depth);
        let mut on = self.join_condition(&left, &right);
        let columns = [left.columns, right.columns].concat();
        if kind == "JOIN" && self.subqueries > 0 && self.draw.chance(10) {
            let test = self.subquery_condition(Site::new(&columns, Subqueries::All));
            on = format!("{on} AND {test}");
        }
        let rows = left.rows * right.rows + left.rows + right.rows;
        let from = format!("{} {kind} {} ON {on}", left.sql, right.sql);
        (from, columns, rows)
    }

    fn semi_joined(&mut self, depth: usize) -> Relation {
        let (left, right) = self.sides(depth);
        let kind = self
            .draw
            .one(&["LEFT SEMI", "LEFT ANTI", "RIGHT SEMI", "RIGHT ANTI"]);
        let on = self.join_condition(&left, &right);
        let kept = if kind.starts_with("LEFT") {
            &left
        } else {
            &right
        };
        let site = Site::new(&kept.columns, Subqueries::Scalar);
        let expressions = self.expressions(site, 4);
        let (listed, columns) = self.listed(expressions);
        Relation {
            sql: format!(
                "SELECT {listed} FROM {} {kind} JOIN {} ON {on}",
                left.sql, right.sql
            ),
            columns,
            rows: kept.rows,
        }
    }

    /// Two sides that have not too many pairs.
    pub fn sides(&mut self, depth: usize) -> (Source, Source) {
        let left = self.source(depth);
        let right = self.source(depth);
        let is_wide = left.rows * right.rows > MOST_PAIRS;
        (self.bounded(left, is_wide), self.bounded(right, is_wide))
    }

    fn bounded(&mut self, source: Source, is_wide: bool) -> Source {
        if !is_wide || source.rows <= 60 {
            return source;
        }
        let first = self.first_rows(source, 60);
        self.aliased(first)
    }

    fn distinct(&mut self, depth: usize) -> Relation {
        let source = self.source(depth);
        let site = Site::new(&source.columns, Subqueries::Scalar);
        let n = 1 + self.draw.below(3);
        let keys = self.keys(site, n);
        let (listed, columns) = self.listed(keys);
        Relation {
            sql: format!("SELECT DISTINCT {listed} FROM {}", source.sql),
            columns,
            rows: source.rows,
        }
    }

    /// Expressions to tell rows apart by. Of a group of zeros any one stands for all, so floats are none of them.
    pub fn keys(&mut self, site: Site, n: usize) -> Vec<(String, Kind)> {
        (0..n)
            .map(|_| {
                let kind = self.common_kind(site, site);
                let key = self.expression(site, kind, 1);
                let key = if kind == Kind::Float {
                    format!("({key} + 0.25)")
                } else {
                    key
                };
                (key, kind)
            })
            .collect()
    }

    /// A set operation, also of aggregates of all rows.
    fn combined(&mut self, depth: usize) -> Relation {
        let operator = self.draw.one(&[
            "UNION ALL",
            "UNION ALL",
            "UNION ALL",
            "UNION",
            "INTERSECT",
            "INTERSECT ALL",
            "EXCEPT",
            "EXCEPT ALL",
        ]);
        let n = 1 + self.draw.below(3);
        let kinds: Vec<Kind> = (0..n)
            .map(|_| {
                self.draw
                    .one(&[Kind::Small, Kind::Text, Kind::Date, Kind::Whole])
            })
            .collect();
        let is_aggregated = self.draw.chance(50);
        let mut halves = vec![];
        let mut columns = vec![];
        let mut rows = 0;
        for _ in 0..2 {
            let source = self.source(depth);
            let site = Site::new(&source.columns, Subqueries::Scalar);
            let mut expressions = vec![];
            for kind in &kinds {
                let value = self.expression(site, *kind, 1);
                let value = match (is_aggregated, kind) {
                    (true, Kind::Small | Kind::Whole) => format!("sum({value})"),
                    (true, _) => format!("max({value})"),
                    (false, _) => value,
                };
                expressions.push((value, *kind));
            }
            let (listed, made) = self.listed(expressions);
            let filter = self.filter(site, 30);
            halves.push(format!("SELECT {listed} FROM {}{filter}", source.sql));
            rows += source.rows;
            if columns.is_empty() {
                columns = made;
            }
        }
        Relation {
            sql: halves.join(&format!(" {operator} ")),
            columns,
            rows,
        }
    }

    /// The first rows in an order of all columns, so that it does not matter which of equal rows are kept.
    fn limited(&mut self, depth: usize) -> Relation {
        let source = self.source(depth);
        let n = self.draw.below(25);
        self.first_rows(source, n)
    }

    pub fn first_rows(&mut self, source: Source, n: usize) -> Relation {
        let columns = ordered(&source.columns);
        let site = Site::new(&columns, Subqueries::Scalar);
        let mut order: Vec<String> = vec![];
        if self.draw.chance(40) {
            self.is_steady = true;
            // A number alone would be the place of a column.
            order.push(format!("({} + 0)", self.expression(site, Kind::Small, 2)));
            self.is_steady = false;
        }
        order.extend(columns.iter().map(|column| column.name.clone()));
        for key in &mut order {
            key.push_str(
                self.draw
                    .one(&["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"]),
            );
        }
        let listed = columns.iter().map(|c| (c.name.clone(), c.kind)).collect();
        let (listed, columns) = self.listed(listed);
        let offset = if self.draw.chance(40) {
            format!(" OFFSET {}", self.draw.below(5))
        } else {
            String::new()
        };
        let rows = n.min(source.rows);
        let n = if self.draw.chance(50) {
            self.parameter(n.to_string(), "BIGINT")
        } else {
            n.to_string()
        };
        Relation {
            sql: format!(
                "SELECT {listed} FROM {} ORDER BY {} LIMIT {n}{offset}",
                source.sql,
                order.join(", ")
            ),
            columns,
            rows,
        }
    }

    fn windowed(&mut self, depth: usize) -> Relation {
        let (from, all, rows) = if self.draw.chance(50) {
            // DataFusion takes a constant of a padded side for one of all rows, and leaves it out of the window's order.
            self.join("JOIN", depth)
        } else {
            let source = self.source(depth);
            (source.sql, source.columns, source.rows)
        };
        let columns = ordered(&all);
        let site = Site::new(&columns, Subqueries::None);
        let total: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let total = total.join(", ");
        let key = self.leaf(site, Kind::Small);
        let (by, value) = (self.leaf(site, Kind::Small), self.leaf(site, Kind::Small));
        let over = if self.draw.chance(70) {
            format!("PARTITION BY {key} ")
        } else {
            String::new()
        };
        let window = match self.draw.below(6) {
            0 => format!("CAST(row_number() OVER ({over}ORDER BY {total}) AS BIGINT)"),
            1 => format!("CAST(rank() OVER ({over}ORDER BY {by}) AS BIGINT)"),
            2 => format!("sum({value}) OVER ({over}ORDER BY {by})"),
            3 => format!("lag({value}) OVER ({over}ORDER BY {by} DESC, {total})"),
            4 => format!("count({value}) OVER ({over})"),
            _ => format!(
                "sum({value}) OVER ({over}ORDER BY {total} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
            ),
        };
        let mut expressions = self.expressions(site, 3);
        expressions.push((window, Kind::Small));
        let (listed, columns) = self.listed(expressions);
        let kept = if self.draw.chance(25) {
            format!(" QUALIFY row_number() OVER ({over}ORDER BY {total}) <= 2")
        } else {
            String::new()
        };
        Relation {
            sql: format!("SELECT {listed} FROM {from}{kept}"),
            columns,
            rows,
        }
    }

    /// What is grouped: a table, a query or a join.
    pub fn grouped_source(&mut self, depth: usize) -> (String, Vec<Column>) {
        if self.draw.chance(60) {
            let (from, columns, _) = self.any_join(depth);
            (from, columns)
        } else {
            let source = self.source(depth);
            (source.sql, source.columns)
        }
    }
}

/// The columns by which rows can be ordered.
pub(super) fn ordered(columns: &[Column]) -> Vec<Column> {
    let columns = columns.iter().filter(|column| column.kind != Kind::List);
    columns.cloned().collect()
}
