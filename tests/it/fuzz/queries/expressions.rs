//! Random expressions of a kind. None fails on any row, and none depends on the order of rows.

use crate::fuzz::queries::tables::{BOUNDARIES, WORDS};
use crate::fuzz::queries::writer::{Kind, Site, Subqueries, Writer};

impl Writer {
    /// An expression of this kind, of at most `depth` levels.
    pub fn expression(&mut self, site: Site, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.draw.chance(30) {
            return self.leaf(site, kind);
        }
        if site.subqueries != Subqueries::None && self.subqueries > 0 && self.draw.chance(20) {
            return self.scalar_subquery(site, kind);
        }
        match self.draw.below(10) {
            0 | 1 => self.choice(site, kind, depth - 1),
            2 => {
                let (a, b) = self.two(site, kind, depth - 1);
                format!("coalesce({a}, {b})")
            }
            3 if !self.is_steady => self.disguised(site, kind, depth - 1),
            _ => self.operation(site, kind, depth - 1),
        }
    }

    /// A column of this kind, or a constant.
    pub fn leaf(&mut self, site: Site, kind: Kind) -> String {
        match site.column(&mut self.draw, kind) {
            Some(column) if self.draw.chance(85) => column,
            _ => self.constant(kind),
        }
    }

    /// A constant or a parameter.
    pub fn constant(&mut self, kind: Kind) -> String {
        let data_type = match kind {
            Kind::Small => "BIGINT",
            Kind::Text => "VARCHAR",
            Kind::Date => "DATE",
            _ => return self.literal(kind),
        };
        if self.parameters.is_none() || self.draw.chance(50) {
            return self.literal(kind);
        }
        let value = self.literal(kind);
        self.parameter(value, data_type)
    }

    /// `$n` with this value.
    pub fn parameter(&mut self, value: String, data_type: &str) -> String {
        match &mut self.parameters {
            Some(values) => {
                values.push(value);
                format!("CAST(${} AS {data_type})", values.len())
            }
            None => value,
        }
    }

    fn literal(&mut self, kind: Kind) -> String {
        let draw = &mut self.draw;
        match kind {
            Kind::Small => draw.between(0, 9).to_string(),
            Kind::Whole => draw.one(&BOUNDARIES).into(),
            Kind::Float | Kind::Mean => format!("{:?}", draw.between(-6, 12) as f64 / 4.0),
            Kind::Decimal => format!("CAST('{}.25' AS DECIMAL(12, 2))", draw.between(-3, 6)),
            Kind::Text => format!("'{}'", draw.one(&WORDS)),
            Kind::Date => format!("DATE '2024-02-{}'", draw.between(20, 29)),
            Kind::Bool => draw.chance(50).to_string(),
            Kind::List => format!("make_array({}, {})", draw.below(7), draw.below(7)),
        }
    }

    fn two(&mut self, site: Site, kind: Kind, depth: usize) -> (String, String) {
        let first = self.expression(site, kind, depth);
        let second = self.expression(site, kind, depth);
        (first, second)
    }

    fn choice(&mut self, site: Site, kind: Kind, depth: usize) -> String {
        let condition = self.condition(site, depth);
        let (a, b) = self.two(site, kind, depth);
        if self.draw.chance(70) {
            format!("CASE WHEN {condition} THEN {a} ELSE {b} END")
        } else {
            format!("CASE WHEN {condition} THEN {a} END")
        }
    }

    /// A volatile expression with the value of one that is not.
    fn disguised(&mut self, site: Site, kind: Kind, depth: usize) -> String {
        let value = self.expression(site, kind, depth);
        if self.draw.chance(30) {
            format!("CASE WHEN random() < 2.0 THEN {value} END")
        } else {
            value
        }
    }

    fn operation(&mut self, site: Site, kind: Kind, depth: usize) -> String {
        let (a, b) = self.two(site, kind, depth);
        let n = self.draw.below(8);
        let constant = self.draw.between(2, 7);
        match (kind, n) {
            (Kind::Small, 0) => format!("({a} + {b})"),
            (Kind::Small, 1) => format!("({a} - {b})"),
            (Kind::Small, 2) => format!("({a} % {constant})"),
            (Kind::Small, 3) => format!("abs({a} - {constant})"),
            (Kind::Small, 4) => {
                let text = self.expression(site, Kind::Text, depth);
                format!("CAST(character_length({text}) AS BIGINT)")
            }
            (Kind::Small, 5) => {
                let date = self.expression(site, Kind::Date, depth);
                format!("CAST(date_part('day', {date}) AS BIGINT)")
            }
            (Kind::Small, 6) => {
                let (l, m) = self.two(site, Kind::List, depth);
                format!("array_overlap({l}, {m})")
            }
            // DataFusion evaluates the division where the condition is true alone.
            (Kind::Small, _) => {
                format!("CASE WHEN {a} <> {constant} THEN 20 / ({a} - {constant}) ELSE {b} END")
            }
            (Kind::Whole, 0) => format!("({a} + {b})"),
            (Kind::Whole, 1) => format!("({a} - {b})"),
            (Kind::Whole, 2) => format!("({a} * {constant})"),
            (Kind::Whole, _) => {
                let small = self.expression(site, Kind::Small, depth);
                format!("({small} - {a})")
            }
            (Kind::Float, 0) => format!("({a} + {b})"),
            (Kind::Float, 1) => format!("({a} * 0.5)"),
            (Kind::Float, 2) => format!("(- {a})"),
            (Kind::Float, _) => {
                let small = self.expression(site, Kind::Small, depth);
                format!("CAST({small} AS DOUBLE)")
            }
            (Kind::Mean, _) => {
                let (l, m) = self.two(site, Kind::List, depth);
                let of = self.draw.one(&["jaccard", "dice", "cosine", "containment"]);
                format!("array_{of}({l}, {m})")
            }
            (Kind::Decimal, 0..4) => format!("(- {a})"),
            (Kind::Decimal, _) => format!("nullif({a}, {b})"),
            (Kind::Text, 0) => format!("concat({a}, 'a')"),
            (Kind::Text, 1) => format!("substr({a}, 1, {constant})"),
            (Kind::Text, 2) => format!("upper({a})"),
            (Kind::Text, 3) => format!("({a} || {b})"),
            (Kind::Text, _) => {
                let small = self.expression(site, Kind::Small, depth);
                format!("CAST({small} AS VARCHAR)")
            }
            (Kind::Date, 0..4) => format!("({a} + INTERVAL '{constant} days')"),
            (Kind::Date, _) => format!("nullif({a}, {b})"),
            (Kind::Bool, _) => format!("({})", self.condition(site, depth)),
            (Kind::List, _) => {
                let (a, b) = self.two(site, Kind::Small, depth);
                format!("make_array({a}, {b})")
            }
        }
    }

    /// A condition of at most `depth` levels.
    pub fn condition(&mut self, site: Site, depth: usize) -> String {
        if depth > 0 && self.draw.chance(35) {
            let first = self.condition(site, depth - 1);
            if self.draw.chance(15) {
                return format!("NOT ({first})");
            }
            let second = self.condition(site, depth - 1);
            let connective = self.draw.one(&["AND", "OR"]);
            return format!("({first} {connective} {second})");
        }
        if site.subqueries == Subqueries::All && self.subqueries > 0 && self.draw.chance(45) {
            return self.subquery_condition(site);
        }
        let below = depth.min(1);
        let kind = self.common_kind(site, site);
        match self.draw.below(12) {
            0 => {
                let not = self.draw.one(&["", "NOT "]);
                format!("{} IS {not}NULL", self.leaf(site, kind))
            }
            1 => {
                let value = self.expression(site, kind, below);
                let list: Vec<String> = (0..3).map(|_| self.constant(kind)).collect();
                let not = self.draw.one(&["", "", "NOT "]);
                format!("{value} {not}IN ({})", list.join(", "))
            }
            2 => {
                let value = self.leaf(site, Kind::Small);
                let (a, b) = self.two(site, Kind::Small, below);
                format!("{value} BETWEEN {a} AND {b}")
            }
            3 => {
                let pattern = self.draw.one(&["a%", "%b", "%a%", "_", "%"]);
                format!("{} LIKE '{pattern}'", self.leaf(site, Kind::Text))
            }
            4 => self.leaf(site, Kind::Bool),
            5 => {
                // In DataFusion it is NULL or false of an empty list and a NULL, by the size of batches.
                let (a, b) = self.two(site, Kind::List, below);
                format!("coalesce(array_has_any({a}, {b}), false)")
            }
            6 if depth > 0 => {
                let condition = self.condition(site, depth - 1);
                let then = self.condition(site, depth - 1);
                format!(
                    "CASE WHEN {condition} THEN {then} ELSE {} END",
                    self.draw.chance(50)
                )
            }
            7 => {
                let mean = self.expression(site, Kind::Mean, 1);
                format!("{mean} >= 0.25")
            }
            _ => {
                let (a, b) = self.two(site, kind, below);
                let operator = self.draw.one(&[
                    "=",
                    "<>",
                    "<",
                    "<=",
                    ">",
                    ">=",
                    "IS DISTINCT FROM",
                    "IS NOT DISTINCT FROM",
                ]);
                format!("({a} {operator} {b})")
            }
        }
    }

    /// `EXISTS` or `IN`, alone or below `CASE`, `NOT` and `OR`.
    pub fn subquery_condition(&mut self, site: Site) -> String {
        self.subqueries -= 1;
        let source = self.subquery_source();
        let inner = Site::new(&source.columns, Subqueries::None);
        let from = &source.sql;
        let own = self.condition(inner, 1);
        let test = match self.draw.below(4) {
            0 => {
                let kind = self.common_kind(site, inner);
                let value = self.leaf(site, kind);
                let of = self.leaf(inner, kind);
                let not = self.draw.one(&["", "", "NOT "]);
                format!("{value} {not}IN (SELECT {of} FROM {from} WHERE {own})")
            }
            1 => format!("EXISTS (SELECT 1 FROM {from} WHERE {own})"),
            _ => {
                let not = self.draw.one(&["", "NOT "]);
                let matched = self.correlation(site, inner);
                format!("{not}EXISTS (SELECT 1 FROM {from} WHERE {matched} AND {own})")
            }
        };
        match self.draw.below(4) {
            0 => {
                let other = self.condition(Site::new(site.columns, Subqueries::None), 1);
                format!(
                    "CASE WHEN {test} THEN {other} ELSE {} END",
                    self.draw.chance(50)
                )
            }
            1 => {
                let other = self.condition(Site::new(site.columns, Subqueries::None), 1);
                format!("({test} OR {other})")
            }
            _ => test,
        }
    }

    /// Conditions between the row outside and those of a subquery.
    pub fn correlation(&mut self, outer: Site, inner: Site) -> String {
        let kind = self.common_kind(outer, inner);
        let (a, b) = (self.leaf(inner, kind), self.leaf(outer, kind));
        let operator = self.draw.one(&["=", "=", "=", "<", ">="]);
        let first = format!("{a} {operator} {b}");
        if self.draw.chance(60) {
            return first;
        }
        let (a, b) = (self.leaf(inner, Kind::Small), self.leaf(outer, Kind::Small));
        let operator = self.draw.one(&["=", "<", "<>", ">"]);
        format!("{first} AND {a} {operator} {b}")
    }
}
