//! A query with a fault, and what must hold after it.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::{BowtieRuntime, Fault, Faults};
use futures::StreamExt;

use crate::memory::faults::queries::{POOL, Query};
use crate::memory::spill::check::{rows, spilled};
use crate::support::answer::{Answer, answer, plan_of, shown, stock};
use crate::support::compare::similar_rows;
use crate::support::lists::{self, Shape};
use crate::support::pool::greedy;
use crate::support::session::{session_on, set};
use crate::support::tables::{mixed_table, permuted_table, register};
use crate::support::tuning::Tuning;

const MEMORY: u64 = 64 << 20;

/// A query, its tables and its rows by DataFusion.
pub(crate) struct Trial<'a> {
    query: &'a Query,
    tables: Tables,
    stock: Answer,
    /// Bytes of columns that stay.
    stored: u64,
    /// Used again where no columns stay.
    session: Session,
}

/// What became of a query.
pub(crate) struct Tried {
    /// Calls that failed.
    pub struck: u64,
    pub has_rows: bool,
}

/// A session in a runtime of its own.
struct Session {
    ctx: SessionContext,
    runtime: Arc<BowtieRuntime>,
    pool: Arc<dyn MemoryPool>,
    faults: Faults,
}

struct Tables {
    batches: Vec<(&'static str, RecordBatch)>,
    #[cfg(feature = "parquet")]
    files: tempfile::TempDir,
}

impl<'a> Trial<'a> {
    /// Checks the query without faults: its rows, its nodes, and that it spills if it is to.
    pub(crate) async fn new(query: &'a Query) -> Self {
        let tables = Tables::new();
        let plain = tables.session(POOL).await;
        let stock = stock(&plain.ctx, query.sql).await.unwrap();
        assert!(stock.batches.iter().any(|batch| batch.num_rows() > 0));
        let session = tables.forced(query).await;
        let answer = answer(&session.ctx, query.sql).await.unwrap();
        assert!(answer.plan.contains(query.node), "{}", answer.plan);
        similar_rows(&stock, &answer).unwrap();
        let stored = session.comes_to_rest().await;
        if query.pool < POOL {
            let (_, plan) = rows(&session.ctx, query.sql).await.unwrap();
            assert!(spilled(&plan)[1] > 0, "{}", answer.plan);
        }
        Self {
            query,
            tables,
            stock,
            stored,
            session,
        }
    }

    /// Runs the query with calls that fail, and then without.
    pub(crate) async fn run(&self, fault: Fault, before: u64, times: u64) -> Tried {
        match self.stored {
            0 => self.run_in(&self.session, fault, before, times).await,
            _ => {
                let session = self.tables.forced(self.query).await;
                let tried = self.run_in(&session, fault, before, times).await;
                // Columns of files stay as long as the files do not change.
                if self.query.reads_memory() {
                    session.gives_all_back().await;
                }
                tried
            }
        }
    }

    /// Fails once on a card. Returns for the next runs of the query, without a fault, whether they stayed on the card: one at once, and one after the
    /// failure is forgotten.
    pub(crate) async fn runs_after_a_failure(&self) -> [bool; 2] {
        let failed = self.run_by_auto(Fault::Launch, 0, u64::MAX).await;
        assert!(failed.struck > 0 && !failed.has_rows, "{:?}", self.query);
        let mut stayed = [true; 2];
        for stayed in &mut stayed {
            let plan = plan_of(&self.session.ctx, self.query.sql).await.unwrap();
            set(&self.session.ctx, "bowtie.offload", "auto");
            let rows = collect(Arc::clone(&plan), self.session.ctx.task_ctx()).await;
            set(&self.session.ctx, "bowtie.offload", "force");
            rows.unwrap();
            *stayed = ended_well(&plan);
            self.session.runtime.forget_failures();
        }
        stayed
    }

    /// Runs the query, which is planned as forced, under `auto` with calls that fail: it has DataFusion's rows, unless some of its rows were
    /// read before the failure.
    pub(crate) async fn run_by_auto(&self, fault: Fault, before: u64, times: u64) -> Tried {
        let of_its_own;
        let session = match self.stored {
            0 => &self.session,
            _ => {
                of_its_own = self.tables.forced(self.query).await;
                &of_its_own
            }
        };
        session.runtime.forget_failures();
        let plan = plan_of(&session.ctx, self.query.sql).await.unwrap();
        assert!(shown(&plan).contains(self.query.node), "{}", shown(&plan));
        set(&session.ctx, "bowtie.offload", "auto");
        session.faults.arm(fault, before, times);
        let mut batches = vec![];
        let mut rows = execute_stream(Arc::clone(&plan), session.ctx.task_ctx()).unwrap();
        let ended = loop {
            match rows.next().await {
                Some(Ok(batch)) => batches.push(batch),
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            }
        };
        drop(rows);
        let struck = session.faults.disarm();
        set(&session.ctx, "bowtie.offload", "force");
        let what = || {
            format!(
                "{:?}\n{fault:?} after {before}, {times} times, struck {struck}",
                self.query
            )
        };
        match ended {
            Ok(()) => {
                let given = Answer {
                    plan: shown(&plan),
                    schema: plan.schema(),
                    batches,
                };
                if let Err(difference) = similar_rows(&self.stock, &given) {
                    panic!("{}\n{difference}", what());
                }
            }
            Err(error) => {
                let has_way_back = self.query.node != "BowtieClustersExec";
                assert!(!batches.is_empty() || !has_way_back, "{}\n{error}", what());
            }
        }
        let settled = session.settles(|in_use| in_use <= self.stored).await;
        assert!(settled, "{}", what());
        Tried {
            struck,
            has_rows: ended_well(&plan),
        }
    }

    async fn run_in(&self, session: &Session, fault: Fault, before: u64, times: u64) -> Tried {
        let (query, faults) = (self.query, &session.faults);
        faults.arm(fault, before, times);
        let tried = answer(&session.ctx, query.sql).await;
        let struck = faults.disarm();
        let what = || {
            let memory = session.runtime.device_memory();
            let stored = self.stored;
            format!(
                "{query:?}\n{fault:?} after {before}, {times} times, struck {struck}; {stored} bytes are to stay of {memory:?}"
            )
        };
        let has_rows = match tried {
            Ok(given) => {
                if let Err(difference) = similar_rows(&self.stock, &given) {
                    panic!("{}\n{difference}", what());
                }
                true
            }
            Err(error) => {
                assert!(struck > 0 && names(&error, fault), "{}\n{error:?}", what());
                false
            }
        };
        let settled = session.settles(|in_use| in_use <= self.stored).await;
        assert!(settled, "{}", what());
        let next = answer(&session.ctx, query.sql).await;
        let next = next.unwrap_or_else(|error| panic!("{}\nthe next one: {error}", what()));
        if let Err(difference) = similar_rows(&self.stock, &next) {
            panic!("{}\nthe next one: {difference}", what());
        }
        let settled = session.settles(|in_use| in_use == self.stored).await;
        assert!(settled, "the next one: {}", what());
        Tried { struck, has_rows }
    }
}

/// Whether no node went back to DataFusion.
fn ended_well(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let metrics = plan.metrics();
    let fallbacks = metrics.and_then(|metrics| metrics.sum_by_name("fallbacks"));
    let below = || plan.children().into_iter().all(ended_well);
    fallbacks.is_none_or(|count| count.as_usize() == 0) && below()
}

impl Tables {
    fn new() -> Self {
        let batches = vec![
            ("r", mixed_table(150, 0.1, 5)),
            ("s", mixed_table(120, 0.1, 6)),
            ("u", lists::table(Shape::short(60, 0.1, 7))),
            ("v", lists::table(Shape::short(50, 0.1, 8))),
            ("long", permuted_table(3000, 12)),
        ];
        Self {
            batches,
            #[cfg(feature = "parquet")]
            files: files(),
        }
    }

    async fn session(&self, pool: usize) -> Session {
        let faults = Faults::default();
        let runtime = BowtieRuntime::with_faults(MEMORY, &faults);
        let pool = greedy(pool);
        let ctx = session_on(Arc::clone(&pool), Arc::clone(&runtime));
        Tuning::PLAIN.apply(&ctx);
        set(&ctx, "datafusion.optimizer.join_reordering", "false");
        for (name, batch) in &self.batches {
            register(&ctx, name, batch);
        }
        #[cfg(feature = "parquet")]
        {
            let path = self.files.path().display();
            let sql = format!("CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION '{path}/'");
            ctx.sql(&sql).await.unwrap();
        }
        Session {
            ctx,
            runtime,
            pool,
            faults,
        }
    }

    /// A session for a query.
    async fn forced(&self, query: &Query) -> Session {
        let session = self.session(query.pool).await;
        set(&session.ctx, "bowtie.offload", "force");
        for (key, value) in query.set {
            set(&session.ctx, key, value);
        }
        session
    }
}

impl Session {
    fn in_use(&self) -> u64 {
        let memory = self.runtime.device_memory();
        memory.first().map_or(0, |memory| memory.in_use)
    }

    /// Whether nothing of the memory pool is reserved, and the device's reserved bytes are as they should be, once the tasks of
    /// a query have ended.
    async fn settles(&self, should: impl Fn(u64) -> bool) -> bool {
        for _ in 0..2000 {
            if self.pool.reserved() == 0 && should(self.in_use()) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    }

    /// Reserved bytes once they no longer change.
    async fn comes_to_rest(&self) -> u64 {
        let mut in_use = u64::MAX;
        while std::mem::replace(&mut in_use, self.in_use()) != self.in_use() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        in_use
    }

    /// Checks that nothing is reserved once the tables are gone.
    async fn gives_all_back(&self) {
        for table in ["r", "s"] {
            self.ctx.deregister_table(table).unwrap();
        }
        // Their columns go when somebody looks.
        let stored = answer(&self.ctx, "SELECT count(*) FROM bowtie_cache()");
        stored.await.unwrap();
        let settled = self.settles(|in_use| in_use == 0).await;
        assert!(settled, "{:?}", self.runtime.device_memory());
    }
}

/// Whether an error says what failed.
fn names(error: &DataFusionError, fault: Fault) -> bool {
    let text = error.to_string();
    match fault {
        Fault::Reservation
        | Fault::Allocation
        | Fault::Load
        | Fault::Pin
        | Fault::Stream
        | Fault::Event => text.contains("device memory exhausted"),
        _ => text.contains(&format!("{fault:?} failed on purpose")),
    }
}

#[cfg(feature = "parquet")]
fn files() -> tempfile::TempDir {
    use crate::cache::{batch, parquet};
    let files = tempfile::tempdir().unwrap();
    let bytes = parquet::encoded(&[batch(0, 90)], 40);
    parquet::write_at(&files.path().join("p.parquet"), &bytes, 0);
    files
}
