//! Random conditions of joins: equalities, bands, overlaps, inequalities, disjunctions, predicates on lists, and what no comparison decides.

use crate::fuzz::queries::writer::{Kind, Site, Source, Subqueries, Writer};

impl Writer {
    /// The condition of a join.
    pub fn join_condition(&mut self, left: &Source, right: &Source) -> String {
        let both = [left.columns.as_slice(), right.columns.as_slice()].concat();
        let (l, r) = (
            Site::new(&left.columns, Subqueries::None),
            Site::new(&right.columns, Subqueries::None),
        );
        let n = self.draw.one(&[1, 1, 1, 2, 2, 3]);
        let conjuncts: Vec<String> = (0..n)
            .map(|i| match self.draw.below(if i == 0 { 9 } else { 12 }) {
                0..3 => self.equality(l, r),
                3 => self.band(l, r),
                4 => self.overlap(l, r),
                5 => self.inequality(l, r),
                6 => self.disjunction(l, r),
                7 => self.similarity(l, r),
                8 => {
                    let (l, r) = (
                        Site::new(&left.columns, Subqueries::Scalar),
                        Site::new(&right.columns, Subqueries::Scalar),
                    );
                    let kind = self.common_kind(l, r);
                    let (a, b) = (self.expression(l, kind, 2), self.expression(r, kind, 2));
                    format!("{a} {} {b}", self.draw.one(&["=", "=", "<", ">="]))
                }
                9 => self.condition(if i % 2 == 0 { l } else { r }, 1),
                _ => self.condition(Site::new(&both, Subqueries::Scalar), 1),
            })
            .collect();
        conjuncts.join(" AND ")
    }

    fn equality(&mut self, l: Site, r: Site) -> String {
        let kind = self.common_kind(l, r);
        let (a, b) = (self.leaf(l, kind), self.leaf(r, kind));
        let operator = self.draw.one(&["=", "=", "=", "=", "IS NOT DISTINCT FROM"]);
        format!("({a} {operator} {b})")
    }

    pub fn inequality(&mut self, l: Site, r: Site) -> String {
        let kind = self.common_kind(l, r);
        let (a, b) = (self.leaf(l, kind), self.leaf(r, kind));
        let operator = self.draw.one(&["<", "<=", ">", ">=", "<>"]);
        format!("{a} {operator} {b}")
    }

    pub fn band(&mut self, l: Site, r: Site) -> String {
        let (a, b) = (self.leaf(l, Kind::Small), self.leaf(r, Kind::Small));
        let width = self.draw.between(0, 4);
        match self.draw.below(3) {
            0 => format!("abs({a} - {b}) <= {width}"),
            1 => format!("{b} BETWEEN {a} - {width} AND {a} + {width}"),
            _ => format!("{a} - {b} BETWEEN 0 AND {width}"),
        }
    }

    fn overlap(&mut self, l: Site, r: Site) -> String {
        let (a, b) = (self.leaf(l, Kind::Small), self.leaf(r, Kind::Small));
        let (c, d) = (self.leaf(l, Kind::Small), self.leaf(r, Kind::Small));
        let operator = self.draw.one(&["<", "<="]);
        format!("({a} {operator} {d} AND {b} {operator} {c})")
    }

    fn disjunction(&mut self, l: Site, r: Site) -> String {
        let n = 2 + self.draw.below(2);
        let disjuncts: Vec<String> = (0..n)
            .map(|_| match self.draw.below(5) {
                0..3 => self.equality(l, r),
                3 => self.band(l, r),
                _ => format!("({} AND {})", self.equality(l, r), self.inequality(l, r)),
            })
            .collect();
        format!("({})", disjuncts.join(" OR "))
    }

    pub fn similarity(&mut self, l: Site, r: Site) -> String {
        let (a, b) = (self.leaf(l, Kind::List), self.leaf(r, Kind::List));
        let test = self.draw.one(&[
            "array_has_any({a}, {b})",
            "array_overlap({a}, {b}) >= 2",
            "array_jaccard({a}, {b}) >= 0.3",
            "array_dice({a}, {b}) > 0.5",
            "array_containment({a}, {b}) >= 0.5",
            "array_jaccard({a}, array_append({b}, {s})) >= 0.2",
        ]);
        let appended = if self.subqueries > 0 && test.contains("{s}") {
            self.scalar_subquery(Site::new(&[], Subqueries::Scalar), Kind::Small)
        } else {
            "3".into()
        };
        test.replace("{a}", &a)
            .replace("{b}", &b)
            .replace("{s}", &appended)
    }
}
