//! Random plans, one after the other, over stored tables that compete for a cache whose size changes between them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;
use proptest::prelude::*;

use crate::cache::lines;
use crate::fuzz::cases::{Cell, Outcome, Shares, column_types, refused, run_cases, table};
use crate::fuzz::plans::{MOST_LEAVES, Plan, plan};
use crate::support::answer::{Answer, plan_of, shown, stock};
use crate::support::compare::same_rows;
use crate::support::pool::greedy;
use crate::support::session::{device, session_on, set};
use crate::support::tables::register_whole;
use crate::support::tuning::Tuning;

/// Bytes of a table that is pinned, since a cache has at least a MiB.
const PINNED: usize = 1 << 20;

/// Sizes of a cache: its bytes beyond the pinned ones are those of a column or two, of some, or of all.
fn sizes() -> Vec<String> {
    let beyond = [100, 200, 400, 700, 1_500, 5_000];
    let sizes = beyond.map(|beyond| (PINNED + beyond).to_string());
    let others = ["off", "auto", "64MB"].map(String::from);
    sizes.into_iter().chain(others).collect()
}

#[derive(Debug, Clone)]
struct Case {
    data_type: DataType,
    /// Rows of three tables.
    tables: [Vec<[Cell; 4]>; 3],
    /// Plans, and the size of the cache for each.
    plans: Vec<(Plan, String)>,
}

fn case() -> impl Strategy<Value = Case> {
    let cell = prop_oneof![1 => Just(None), 5 => (0..12u8).prop_map(Some)];
    let rows = prop::collection::vec(prop::array::uniform4(cell), 1..14);
    let step = (plan(), prop::sample::select(sizes()));
    (
        prop::sample::select(column_types()),
        prop::array::uniform3(rows),
        prop::collection::vec(step, 4..10),
    )
        .prop_map(|(data_type, tables, plans)| Case {
            data_type,
            tables,
            plans,
        })
}

/// What happened in all cases.
#[derive(Debug, Default)]
struct Seen {
    hits: usize,
    loads: usize,
    evictions: usize,
}

async fn stored(ctx: &SessionContext) -> HashSet<String> {
    let sql = "SELECT \"table\", \"column\", rows FROM bowtie_cache()";
    lines(ctx, sql).await.into_iter().collect()
}

impl Case {
    fn table(&self, n: usize) -> RecordBatch {
        let rows = &self.tables[n];
        let number = |column: usize| -> ArrayRef {
            let numbers = rows.iter().map(|row| row[column].map(i64::from));
            Arc::new(Int64Array::from_iter(numbers))
        };
        let types = [self.data_type.clone(), self.data_type.clone()];
        let values = table(&types, rows);
        RecordBatch::try_from_iter_with_nullable([
            ("i", number(2), true),
            ("j", number(3), true),
            ("c0", Arc::clone(values.column(1)), true),
            ("c1", Arc::clone(values.column(2)), true),
        ])
        .unwrap()
    }

    /// What became of its plans, or why the rows differ.
    async fn run(&self, seen: &Mutex<Seen>) -> Result<Outcome, String> {
        let ctx = session_on(
            greedy(64 << 20),
            BowtieRuntime::with_device_memory(64 << 20),
        );
        for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
            register_whole(&ctx, name, self.table(n));
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..PINNED as i64 / 8));
        let pinned = RecordBatch::try_from_iter([("i", numbers)]).unwrap();
        register_whole(&ctx, "pinned", pinned);
        set(&ctx, "bowtie.cache", "64MB");
        lines(&ctx, "SELECT * FROM bowtie_pin('pinned')").await;
        let mut outcome = Outcome::Refused;
        for (plan, size) in &self.plans {
            let sql = plan.sql(&mut { MOST_LEAVES });
            let expected = match stock(&ctx, &sql).await {
                Ok(expected) => expected,
                // An expression that fails, or one that DataFusion does not support.
                Err(refusal) => {
                    refused(&ctx, &sql, &Tuning::PLAIN, &refusal).await?;
                    continue;
                }
            };
            set(&ctx, "bowtie.offload", "force");
            set(&ctx, "bowtie.cache", size);
            let before = stored(&ctx).await;
            let given = async {
                let node = plan_of(&ctx, &sql).await?;
                let batches = collect(Arc::clone(&node), ctx.task_ctx()).await?;
                Ok::<_, datafusion::error::DataFusionError>((node, batches))
            };
            let (node, batches) = given.await.map_err(|e| format!("{sql}\n{size}: {e}"))?;
            let given = Answer {
                plan: shown(&node),
                schema: node.schema(),
                batches,
            };
            same_rows(&expected, &given).map_err(|difference| {
                let plans = format!("{}\n{}", expected.plan, given.plan);
                format!("{sql}\n{size}\n{plans}\n{difference}")
            })?;
            if given.plan.contains("Bowtie") {
                outcome = Outcome::Offloaded;
            } else if outcome == Outcome::Refused {
                outcome = Outcome::Declined;
            }
            let after = stored(&ctx).await;
            let mut seen = seen.lock().unwrap();
            seen.evictions += before.difference(&after).count();
            let mut nodes = vec![&node];
            while let Some(node) = nodes.pop() {
                if node.name() == "BowtieScanExec"
                    && let Some(metrics) = node.metrics()
                {
                    let of = |name| metrics.sum_by_name(name).map_or(0, |sum| sum.as_usize());
                    seen.hits += usize::from(of("resident_bytes") > 0);
                    seen.loads += usize::from(of("uploaded_bytes") > 0);
                }
                nodes.extend(node.children());
            }
        }
        Ok(outcome)
    }
}

#[test]
fn random_plans_of_competing_tables() {
    let seen = Mutex::default();
    // A case has several plans.
    let shares = Shares {
        offloaded: 96,
        refused: 5,
    };
    run_cases(case(), shares, |case| {
        let seen = &seen;
        async move { case.run(seen).await }
    });
    let seen = seen.into_inner().unwrap();
    println!("{seen:?}");
    let Seen {
        hits,
        loads,
        evictions,
    } = seen;
    assert!(loads > 0);
    // On a GPU other tests take columns of the card's stores, too.
    assert!(device() != "host" || (hits > 0 && evictions > 0));
}
