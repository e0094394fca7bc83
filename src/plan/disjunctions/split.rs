//! [`split`]: a join's condition as an OR whose disjuncts have an index each, and what else must hold.
//!
//! ```text
//! a.id < b.id AND (a.email = b.email OR array_overlap(a.names, b.names) >= 2 OR (a.zip = b.zip AND abs(a.born - b.born) <= 1))
//! common          disjunct              disjunct                                disjunct
//! ```

use datafusion::logical_expr::utils::{conjunction, split_binary, split_conjunction};
use datafusion::logical_expr::{Expr, Operator};

use crate::plan::disjunctions::index::{Index, arguments_of_containment, index_of};
use crate::plan::disjunctions::infallible::cannot_fail;
use crate::plan::disjunctions::sides::Sides;

/// Disjuncts at most: each one has a join, and is tested on the matches of those behind it.
const MOST_DISJUNCTS: usize = 8;

/// Bounds that an index of ranges needs: one alone lets about half of all pairs through, which is no less than what testing them costs.
const LEAST_BOUNDS: usize = 2;

/// `common AND (disjunct OR disjunct …)`.
pub(super) struct Split {
    pub(super) common: Vec<Expr>,
    /// Those that cost most to test come last: no join tests the last one.
    pub(super) disjuncts: Vec<Expr>,
}

/// `None` if testing all pairs, or the candidates of an index that the rest of the condition has, is no worse.
pub(super) fn split(condition: &Expr, sides: &Sides) -> Option<Split> {
    let conjuncts = split_conjunction(condition);
    let is_selective = |conjunct: &&Expr| {
        let index = index_of(conjunct, sides);
        matches!(index, Some(Index::Equality | Index::Set))
    };
    if conjuncts.iter().any(is_selective) {
        return None;
    }
    // A range with two bounds leaves few candidates, too.
    let bounds = conjuncts
        .iter()
        .map(|conjunct| match index_of(conjunct, sides) {
            Some(Index::Range { bounds }) => bounds,
            _ => 0,
        });
    if bounds.sum::<usize>() >= LEAST_BOUNDS {
        return None;
    }
    let ors = conjuncts.iter().enumerate();
    let ors = ors.filter_map(|(at, conjunct)| Some((at, disjuncts(conjunct, sides)?)));
    let (at, mut disjuncts) = ors.min_by_key(|(_, of)| of.iter().any(Disjunct::is_of_ranges))?;
    let others = conjuncts.iter().enumerate().filter(|(i, _)| *i != at);
    let common: Vec<Expr> = others.map(|(_, other)| (*other).clone()).collect();
    if !common.iter().all(|other| cannot_fail(other, sides)) {
        return None;
    }
    // The joins of the union are split no more.
    if disjuncts.iter().any(|of| of.has_another_or(&common, sides)) {
        return None;
    }
    disjuncts.sort_by_key(|disjunct| disjunct.sets > 0);
    let disjuncts = disjuncts.into_iter().map(|of| conjunction(of.conjuncts));
    Some(Split {
        common,
        disjuncts: disjuncts.collect::<Option<_>>()?,
    })
}

fn is_null_safe(conjunct: &Expr) -> bool {
    matches!(conjunct, Expr::BinaryExpr(of) if of.op == Operator::IsNotDistinctFrom)
}

/// A disjunct that has an index.
struct Disjunct {
    conjuncts: Vec<Expr>,
    equalities: Vec<Expr>,
    sets: usize,
    bounds: usize,
}

/// `None` if `expr` is no OR, or tests all pairs anyway.
fn disjuncts(expr: &Expr, sides: &Sides) -> Option<Vec<Disjunct>> {
    let parts = split_binary(expr, Operator::Or);
    if !(2..=MOST_DISJUNCTS).contains(&parts.len()) {
        return None;
    }
    let parts = parts.into_iter().map(|part| Disjunct::of(part, sides));
    let disjuncts: Vec<Disjunct> = parts.collect::<Option<_>>()?;
    let (first, others) = disjuncts.split_first()?;
    // DataFusion moves what all disjuncts have in common out of the OR, and makes a hash join of an equality there.
    let is_common = |equality: &Expr| others.iter().all(|of| of.equalities.contains(equality));
    let has_common = first.equalities.iter().any(is_common);
    (!has_common).then_some(disjuncts)
}

impl Disjunct {
    /// `None` if it has no index, or may fail on a pair.
    fn of(part: &Expr, sides: &Sides) -> Option<Self> {
        let mut disjunct = Self {
            conjuncts: vec![],
            equalities: vec![],
            sets: 0,
            bounds: 0,
        };
        for conjunct in split_conjunction(part) {
            // DataFusion takes other equalities of a join for such ones, too, once it has one.
            if is_null_safe(conjunct) {
                return None;
            }
            let index = index_of(conjunct, sides);
            let lists = arguments_of_containment(conjunct).filter(|_| index == Some(Index::Set));
            let must_not_fail = lists.unwrap_or(std::slice::from_ref(conjunct));
            if !must_not_fail.iter().all(|expr| cannot_fail(expr, sides)) {
                return None;
            }
            match index {
                Some(Index::Equality) => disjunct.equalities.push(conjunct.clone()),
                Some(Index::Set) => disjunct.sets += 1,
                Some(Index::Range { bounds }) => disjunct.bounds += bounds,
                None => {}
            }
            disjunct.conjuncts.push(conjunct.clone());
            // In DataFusion `array_has_all` of a NULL list may be true, to an index it never is. They must agree on which pairs are left.
            let has_list = lists.into_iter().flatten();
            let has_list = has_list.map(|list| list.clone().is_not_null());
            disjunct.conjuncts.extend(has_list);
        }
        let has_index = !disjunct.is_of_ranges() || disjunct.bounds >= LEAST_BOUNDS;
        has_index.then_some(disjunct)
    }

    /// Whether it has neither an equality nor a predicate on sets.
    fn is_of_ranges(&self) -> bool {
        self.equalities.is_empty() && self.sets == 0
    }

    /// Whether the join of this disjunct has an OR that could be split.
    fn has_another_or(&self, common: &[Expr], sides: &Sides) -> bool {
        let mut all = self.conjuncts.iter().chain(common);
        self.is_of_ranges() && all.any(|conjunct| disjuncts(conjunct, sides).is_some())
    }
}
