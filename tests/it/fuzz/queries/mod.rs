//! Random whole queries: subqueries, volatile values, partners, windows, views and parameters, one inside the other.
//!
//! A case is a script (`script.rs`): tables, statements before the query, and the query. DataFusion alone is the oracle; the query is
//! forced and run by `auto`, both with random options. Queries are made so that their rows, as a multiset, follow from the tables: limits and
//! numbers have an order of all columns, and of volatile values only what they have in common is counted. Where rows differ nevertheless, DataFusion
//! runs the query again with other batches and partitions. If its own rows differ too, the case is *unsettled*; their share is bounded.
//!
//! `BOWTIE_FUZZ_SEED` sets the seed of the first case, `BOWTIE_FUZZ_CASES` the number of cases. A failure shows the seed with which its case is
//! the first one, and the script.

mod aggregates;
mod conditions;
mod draw;
mod expressions;
mod partners;
mod relations;
mod script;
mod subqueries;
mod tables;
mod volatile;
mod writer;

use std::any::Any;
use std::panic::AssertUnwindSafe;

use arrow::compute::concat_batches;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use futures::FutureExt;

use crate::fuzz::cases::{Outcome, Shares, case_count, is_defect, seed};
use crate::fuzz::queries::draw::Draw;
use crate::fuzz::queries::script::Script;
use crate::support::answer::{Answer, answer, answer_with};
use crate::support::compare::similar_rows;
use crate::support::lists::TECHNIQUES;
use crate::support::session::{session, set};
use crate::support::tables::register;
use crate::support::tuning::Tuning;

/// Where `BOWTIE_FUZZ_CASES` is not set: less than 25 s in the dev profile.
const CASES: u32 = 200;

/// Failures that are shown, before the rest is not tried.
const MOST_FAILURES: usize = 5;

const SHARES: Shares = Shares {
    offloaded: 75,
    refused: 8,
};

/// One in so many cases may be unsettled.
const SETTLED: u32 = 50;

#[derive(Debug, Clone, Copy)]
enum Verdict {
    Settled(Outcome),
    /// DataFusion's rows depend on batches and partitions.
    Unsettled,
}

/// The seed of a case: that of the first one is the seed itself.
fn case_seed(seed: u64, number: u32) -> u64 {
    // The finalizer of splitmix64, which sends 0 to 0.
    let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    seed ^ mixed ^ (mixed >> 27)
}

/// A script, and the options under which its query is offloaded.
struct Case {
    script: Script,
    tuning: Tuning,
    options: [(&'static str, &'static str); 4],
}

impl Case {
    fn new(seed: u64) -> Self {
        let draw = &mut Draw::new(!seed);
        let strategy = draw.one(&["auto", "auto", "range", "dominance", "tiles"]);
        let equi = draw.one(&["auto", "direct", "hash", "partitioned_hash", "sort_merge"]);
        Self {
            script: Script::new(seed),
            tuning: Tuning::nth(draw.below(Tuning::COUNT)).with_strategy(strategy),
            options: [
                ("bowtie.equi_join_strategy", equi),
                (
                    "bowtie.materialization",
                    draw.one(&["auto", "late", "early"]),
                ),
                ("bowtie.set_strategy", draw.one(&TECHNIQUES)),
                ("bowtie.strict", "false"),
            ],
        }
    }

    /// A session with the tables, in which the statements before the query have run.
    async fn session(&self) -> Result<SessionContext> {
        let ctx = session();
        set(&ctx, "bowtie.offload", "off");
        for (name, query) in &self.script.tables {
            let rows = answer(&ctx, query).await?;
            register(&ctx, name, &concat_batches(&rows.schema, &rows.batches)?);
        }
        for statement in &self.script.setup {
            ctx.sql(statement).await?.collect().await?;
        }
        Ok(ctx)
    }

    /// The answer of the query under the options as they are.
    async fn answer(&self, ctx: &SessionContext) -> Result<Answer> {
        let Script { query, values, .. } = &self.script;
        if values.is_empty() {
            return answer(ctx, query).await;
        }
        answer_with(ctx, query, scalars(ctx, values).await?).await
    }

    async fn stock(&self, ctx: &SessionContext) -> Result<Answer> {
        Tuning::PLAIN.apply(ctx);
        set(ctx, "bowtie.offload", "off");
        let stock = self.answer(ctx).await?;
        assert!(!stock.plan.contains("Bowtie"), "{}", stock.plan);
        Ok(stock)
    }

    async fn given(&self, ctx: &SessionContext, offload: &str) -> Result<Answer> {
        self.tuning.apply(ctx);
        for (key, value) in self.options {
            set(ctx, key, value);
        }
        set(ctx, "bowtie.offload", offload);
        self.answer(ctx).await
    }

    /// What became of it, or why the rows differ.
    async fn run(&self) -> std::result::Result<Verdict, String> {
        let ctx = match self.session().await {
            Ok(ctx) => ctx,
            Err(refusal) => {
                println!("a statement before the query is refused: {refusal}");
                return Ok(Verdict::Settled(Outcome::Refused));
            }
        };
        let expected = self.stock(&ctx).await;
        let mut is_offloaded = false;
        for offload in ["force", "auto"] {
            let given = self.given(&ctx, offload).await;
            let (expected, failure) = match (&expected, given) {
                (Err(refusal), Err(error)) if is_defect(&error, refusal) => {
                    return Err(format!("{offload} fails: {error}\nDataFusion: {refusal}"));
                }
                (Err(_), _) => continue,
                (Ok(expected), Err(error)) => (expected, format!("fails: {error}")),
                (Ok(expected), Ok(given)) => {
                    is_offloaded |= offload == "force" && given.plan.contains("Bowtie");
                    match similar_rows(expected, &given) {
                        Ok(()) => continue,
                        Err(difference) => {
                            let plans = format!("{}\n{}", expected.plan, given.plan);
                            (expected, format!("{plans}\n{difference}"))
                        }
                    }
                }
            };
            if !self.is_settled(&ctx, expected).await {
                return Ok(Verdict::Unsettled);
            }
            let (tuning, options) = (self.tuning, self.options);
            return Err(format!("{offload}, {tuning:?}, {options:?}\n{failure}"));
        }
        Ok(Verdict::Settled(match expected {
            Ok(_) => Outcome::of_plan(is_offloaded),
            Err(_) => Outcome::Refused,
        }))
    }

    /// Whether DataFusion has these rows whatever its batches and partitions are.
    async fn is_settled(&self, ctx: &SessionContext, expected: &Answer) -> bool {
        let Tuning {
            batch_size,
            partitions,
            ..
        } = self.tuning;
        for (batch_size, partitions) in [(batch_size, partitions), (8192, 4), (7, 4), (1, 2)] {
            let tuning = Tuning {
                batch_size,
                partitions,
                ..Tuning::PLAIN
            };
            tuning.apply(ctx);
            set(ctx, "bowtie.offload", "off");
            match self.answer(ctx).await {
                Ok(again) if similar_rows(expected, &again).is_ok() => {}
                _ => return false,
            }
        }
        true
    }
}

/// The values of constants.
async fn scalars(ctx: &SessionContext, constants: &[String]) -> Result<Vec<ScalarValue>> {
    let named = constants.iter().enumerate();
    let named: Vec<String> = named.map(|(n, sql)| format!("{sql} AS p{n}")).collect();
    let row = answer(ctx, &format!("SELECT {}", named.join(", "))).await?;
    let columns = row.batches[0].columns().iter();
    columns
        .map(|column| ScalarValue::try_from_array(column, 0))
        .collect()
}

/// Parts of scripts, and in how many of 1,000 scripts each of them must be.
const PARTS: [(&str, usize); 34] = [
    ("LATERAL (", 60),
    ("LEFT JOIN LATERAL", 15),
    ("QUALIFY", 40),
    ("EXECUTE", 70),
    ("LIMIT CAST($", 8),
    ("CREATE VIEW", 100),
    ("FROM w AS", 30),
    ("WITH z", 100),
    ("RECURSIVE", 40),
    ("CASE WHEN EXISTS", 15),
    ("NOT EXISTS", 15),
    ("IN (SELECT", 20),
    ("NOT IN (SELECT", 5),
    ("(SELECT max(", 150),
    ("(SELECT count(*)", 100),
    ("random()", 150),
    ("uuid()", 10),
    ("row_number() OVER ()", 50),
    ("rank() OVER", 30),
    ("SEMI JOIN", 30),
    ("ANTI JOIN", 30),
    ("FULL JOIN", 40),
    ("LEFT JOIN", 150),
    ("RIGHT JOIN", 50),
    ("UNION ALL SELECT sum", 8),
    ("EXCEPT", 15),
    ("INTERSECT", 20),
    ("GROUP BY ROLLUP", 4),
    ("GROUPING SETS", 15),
    ("(DISTINCT ", 80),
    ("HAVING", 40),
    ("OFFSET", 50),
    (" OR q", 80),
    ("array_jaccard", 60),
];

/// Of 1,000 scripts, those whose data frames get values.
const WITH_VALUES: usize = 25;

#[test]
fn scripts_have_all_parts() {
    let scripts: Vec<Script> = (0..1_000).map(Script::new).collect();
    let with_values = scripts.iter().filter(|script| !script.values.is_empty());
    let with_values = with_values.count();
    assert!(with_values >= WITH_VALUES, "{with_values} have values");
    let prepared = scripts
        .iter()
        .filter(|script| script.query.starts_with("EXECUTE"));
    let prepared = prepared.count();
    assert!(prepared >= WITH_VALUES, "{prepared} are prepared");
    let scripts: Vec<String> = scripts.iter().map(Script::shown).collect();
    for (part, minimum) in PARTS {
        let having = scripts.iter().filter(|script| script.contains(part));
        let having = having.count();
        assert!(having >= minimum, "{part} is in {having} scripts");
    }
}

/// What a panic says.
fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
    format!("panics: {}", text.unwrap_or_default())
}

#[test]
fn random_queries() {
    let (first, cases) = (seed().unwrap_or_default(), case_count(CASES));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let (mut offloaded, mut refused, mut unsettled) = (0, 0, vec![]);
    let mut failures = vec![];
    for number in 0..cases {
        let seed = case_seed(first, number);
        let case = Case::new(seed);
        let verdict = runtime.block_on(AssertUnwindSafe(case.run()).catch_unwind());
        match verdict.unwrap_or_else(|panic| Err(message(panic))) {
            Ok(Verdict::Settled(Outcome::Offloaded)) => offloaded += 1,
            Ok(Verdict::Settled(Outcome::Declined)) => {}
            Ok(Verdict::Settled(Outcome::Refused)) => refused += 1,
            Ok(Verdict::Unsettled) => unsettled.push(seed),
            Err(why) => failures.push(format!(
                "case {number} of BOWTIE_FUZZ_SEED={first}; alone: BOWTIE_FUZZ_SEED={seed} BOWTIE_FUZZ_CASES=1\n{}\n{why}",
                case.script.shown()
            )),
        }
        if failures.len() == MOST_FAILURES {
            break;
        }
    }
    println!(
        "offloaded {offloaded}, refused {refused}, unsettled: the cases of the seeds {unsettled:?}"
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    SHARES.check(cases, offloaded, refused);
    let most = cases.div_ceil(SETTLED) as usize;
    assert!(
        unsettled.len() <= most,
        "{} of {cases} are unsettled",
        unsettled.len()
    );
}
