//! Random conditions on text: in filters and projections above device nodes, and in conditions of joins that mix the sides.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use proptest::prelude::*;

use crate::fuzz::cases::{Outcome, Shares, outcome, run_cases};
use crate::support::compare::similar_rows;
use crate::support::session::session;
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// Parts of texts, of constants and of patterns.
const WORDS: [&str; 16] = [
    "",
    "a",
    "b",
    "ab",
    "aab",
    "ba",
    "é",
    "é😀",
    "a_b",
    "a%b",
    "\\",
    "long enough to lie elsewhere",
    "long",
    "aaab",
    "abab",
    "B",
];

const PATTERNS: [&str; 12] = [
    "%",
    "_",
    "a%",
    "%b",
    "%ab%",
    "%a%ab%",
    "_b%",
    "%_b",
    "a\\_b",
    "%\\%%",
    "é_",
    "long%else_here",
];

fn types() -> Vec<DataType> {
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
    vec![
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Utf8),
    ]
}

/// Two words together; `None` is NULL.
type Text = Option<(usize, usize)>;

#[derive(Debug, Clone)]
struct Case {
    types: [DataType; 2],
    left: Vec<(Text, i64)>,
    right: Vec<(Text, i64)>,
    query: usize,
    predicates: [Predicate; 3],
    slice: (i64, i64),
    tuning: usize,
}

#[derive(Debug, Clone)]
enum Predicate {
    Compare(&'static str, usize),
    Slice(i64, i64, usize),
    Among(bool, Vec<Option<usize>>),
    Like(bool, usize),
    Call(&'static str, usize),
    Position(usize),
    IsNull(bool),
    Case(usize, usize),
    /// One of [`DISTINCT`].
    Distinct(usize, usize, usize),
}

/// Conditions on the text `{t}` that have no program, by a pattern `{p}` and a word `{w}`.
const DISTINCT: [&str; 8] = [
    "{t} ILIKE '{p}'",
    "{t} NOT ILIKE '{p}'",
    "upper({t}) = '{w}'",
    "{t} ~ '^a+b'",
    "character_length({t}) > 3",
    "replace({t}, 'a', 'b') LIKE '{p}' AND {t} > '{w}'",
    "lower({t}) || 'a' IN ('aba', '{w}a', NULL)",
    "CASE WHEN {t} = '{w}' THEN NULL ELSE reverse({t}) < 'b' END",
];

fn predicate() -> impl Strategy<Value = Predicate> {
    let word = 0..WORDS.len();
    let operators = vec![
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
    ];
    let calls = vec!["starts_with", "ends_with", "contains"];
    prop_oneof![
        3 => (prop::sample::select(operators), word.clone()).prop_map(|(op, w)| Predicate::Compare(op, w)),
        2 => (-2..5i64, 0..5i64, word.clone()).prop_map(|(from, n, w)| Predicate::Slice(from, n, w)),
        2 => (any::<bool>(), prop::collection::vec(prop::option::weighted(0.9, word.clone()), 4..8))
            .prop_map(|(not, words)| Predicate::Among(not, words)),
        4 => (any::<bool>(), 0..PATTERNS.len()).prop_map(|(not, p)| Predicate::Like(not, p)),
        2 => (prop::sample::select(calls), word.clone()).prop_map(|(of, w)| Predicate::Call(of, w)),
        1 => word.clone().prop_map(Predicate::Position),
        1 => any::<bool>().prop_map(Predicate::IsNull),
        1 => (word.clone(), word.clone()).prop_map(|(w, x)| Predicate::Case(w, x)),
        4 => (0..DISTINCT.len(), 0..PATTERNS.len(), word).prop_map(|(d, p, w)| Predicate::Distinct(d, p, w)),
    ]
}

impl Predicate {
    fn sql(&self, text: &str) -> String {
        let word = |w: &usize| format!("'{}'", WORDS[*w]);
        let not = |not: &bool| if *not { "NOT " } else { "" };
        match self {
            Self::Compare(op, w) => format!("{text} {op} {}", word(w)),
            Self::Slice(from, n, w) => format!("substr({text}, {from}, {n}) = {}", word(w)),
            Self::Among(negated, words) => {
                let words = words.iter();
                let words = words.map(|w| w.as_ref().map_or("NULL".into(), word));
                let words: Vec<String> = words.collect();
                format!("{text} {}IN ({})", not(negated), words.join(", "))
            }
            Self::Like(negated, p) => format!("{text} {}LIKE '{}'", not(negated), PATTERNS[*p]),
            Self::Call(of, w) => format!("{of}({text}, {})", word(w)),
            Self::Position(w) => format!("strpos({text}, {}) > 0", word(w)),
            Self::IsNull(negated) => format!("{text} IS {}NULL", not(negated)),
            Self::Case(w, x) => format!(
                "CASE {text} WHEN {} THEN true WHEN {} THEN false ELSE {text} > 'a' END",
                word(w),
                word(x)
            ),
            Self::Distinct(d, p, w) => DISTINCT[*d]
                .replace("{t}", text)
                .replace("{p}", PATTERNS[*p])
                .replace("{w}", WORDS[*w]),
        }
    }
}

/// With conditions `{0}`, `{1}` and `{2}`, and a slice of `r.t`, `{k}`.
const QUERIES: [&str; 5] = [
    "SELECT x.k, count(*), sum(x.v) FROM (SELECT {k} AS k, CASE WHEN {0:r.t} OR {1:s.t} THEN r.id ELSE s.id END AS v \
     FROM a r JOIN b s ON r.g = s.g) AS x GROUP BY x.k",
    "SELECT u.id, x.t FROM b u JOIN (SELECT g, max(t) AS t FROM a GROUP BY g, id % 3) AS x ON u.g = x.g WHERE {0:x.t} OR {1:x.t}",
    "SELECT r.id, s.id, u.id FROM a r JOIN b s ON r.g = s.g JOIN a u ON u.g = s.g AND ({0:r.t} AND {1:u.t} OR {2:s.t})",
    "SELECT r.id, s.id FROM a r LEFT JOIN b s ON r.g = s.g WHERE ({0:s.t}) IS NOT TRUE AND ({1:r.t} OR r.t <= s.t)",
    "SELECT x.v, count(*) FROM (SELECT ({0:r.t}) = ({1:s.t}) AS v, s.g FROM a r FULL JOIN b s ON r.g = s.g AND r.id < s.id) AS x \
     GROUP BY x.v",
];

fn rows() -> impl Strategy<Value = Vec<(Text, i64)>> {
    let text = prop::option::weighted(0.85, (0..WORDS.len(), 0..WORDS.len()));
    prop::collection::vec((text, 0..5i64), 0..40)
}

fn case() -> impl Strategy<Value = Case> {
    (
        prop::array::uniform2(prop::sample::select(types())),
        rows(),
        rows(),
        0..QUERIES.len(),
        [predicate(), predicate(), predicate()],
        (-2..4i64, 0..5i64),
        0..Tuning::COUNT,
    )
        .prop_map(
            |(types, left, right, query, predicates, slice, tuning)| Case {
                types,
                left,
                right,
                query,
                predicates,
                slice,
                tuning,
            },
        )
}

fn table(data_type: &DataType, rows: &[(Text, i64)]) -> RecordBatch {
    let texts = rows.iter().map(|(text, _)| {
        let (first, second) = (*text)?;
        Some(format!("{}{}", WORDS[first], WORDS[second]))
    });
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
    let groups: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1)));
    let texts = cast(&texts, data_type).unwrap();
    RecordBatch::try_from_iter([("id", ids), ("g", groups), ("t", texts)]).unwrap()
}

impl Case {
    fn sql(&self) -> String {
        let (from, count) = self.slice;
        let mut sql = QUERIES[self.query].replace("{k}", &format!("substr(r.t, {from}, {count})"));
        for (i, predicate) in self.predicates.iter().enumerate() {
            for text in ["r.t", "s.t", "u.t", "x.t"] {
                sql = sql.replace(&format!("{{{i}:{text}}}"), &predicate.sql(text));
            }
        }
        sql
    }

    /// What became of it, or why the rows differ.
    async fn run(&self) -> Result<Outcome, String> {
        let ctx = session();
        register(&ctx, "a", &table(&self.types[0], &self.left));
        register(&ctx, "b", &table(&self.types[1], &self.right));
        let sql = self.sql();
        let tuning = Tuning::nth(self.tuning);
        outcome(&ctx, &sql, &tuning, similar_rows, &["Bowtie"]).await
    }
}

#[test]
fn random_text() {
    let shares = Shares {
        offloaded: 94,
        refused: 5,
    };
    run_cases(case(), shares, |case| async move { case.run().await });
}
