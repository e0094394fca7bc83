//! Compares answers of which the first columns are the keys of an order.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;

use crate::support::answer::{Answer, forced, stock};
use crate::support::compare::same_rows;
use crate::support::tuning::Tuning;

/// The first `keys` columns of an answer, row by row, as text.
pub(super) fn key_rows(answer: &Answer, keys: usize) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in &answer.batches {
        let columns = batch.columns().iter().take(keys);
        let columns: Vec<ArrayFormatter> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| column.value(row).to_string());
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

/// Checks that the first `keys` columns have DataFusion's values in DataFusion's order.
pub(super) fn same_order(expected: &Answer, given: &Answer, keys: usize) -> Result<(), String> {
    let (want, have) = (key_rows(expected, keys), key_rows(given, keys));
    if want.len() != have.len() {
        return Err(format!(
            "expected {} rows, given {}",
            want.len(),
            have.len()
        ));
    }
    match want.iter().zip(&have).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(row) => Err(format!(
            "row {row}: expected {}, given {}",
            want[row], have[row]
        )),
    }
}

/// What a sorted query is checked for.
pub(super) struct Sorted<'a> {
    pub sql: &'a str,
    /// The first columns, which are the keys.
    pub keys: usize,
    /// Whether ties may leave out other rows than DataFusion does.
    pub limited: bool,
    /// Nodes that the plan has.
    pub nodes: &'a [&'a str],
}

impl Sorted<'_> {
    /// Checks the forced answer under a tuning, whose plan has one download and no sort of DataFusion. Returns it.
    pub(super) async fn check(&self, ctx: &SessionContext, tuning: &Tuning) -> Answer {
        let sql = self.sql;
        let stock = stock(ctx, sql).await.unwrap();
        let given = match forced(ctx, sql, tuning).await {
            Ok(given) => given,
            Err(error) => panic!("{sql}\n{tuning:?}\nfails when forced: {error}"),
        };
        let plan = &given.plan;
        for node in self.nodes {
            assert!(plan.contains(node), "no {node}: {sql}\n{plan}");
        }
        let downloads = plan.matches("BowtieDownloadExec").count();
        assert_eq!(downloads, 1, "{sql}\n{plan}");
        assert!(!plan.contains(" SortExec"), "{sql}\n{plan}");
        let compared = same_order(&stock, &given, self.keys).and_then(|()| match self.limited {
            true => Ok(()),
            false => same_rows(&stock, &given),
        });
        if let Err(difference) = compared {
            panic!("{sql}\n{tuning:?}\n{plan}\n{difference}");
        }
        given
    }
}
