//! A client of a soak: two sessions with the same tables, one of them DataFusion's own.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow::array::{Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::memory::soak::queries::{change_options, query};
use crate::memory::soak::tables::{SharedTables, register_files, table};
use crate::support::answer::{plan_of, shown};
use crate::support::pool::greedy;
use crate::support::session::{session_on, set};

/// Longer than any query takes on a busy machine.
const HANGS: Duration = Duration::from_secs(180);

/// How long the batches of a dropped table may live while all clients are at work.
const BUSY_OUTLIVE: Duration = Duration::from_secs(30);

/// Rows of its table in memory, at most: it is made again when it has more.
const MOST_ROWS: usize = 8_000;

/// Bytes of the memory pools; queries in the smallest one may be refused.
const POOLS: [usize; 4] = [256 << 10, 8 << 20, 32 << 20, 128 << 20];

#[derive(Debug, Default)]
pub(super) struct Count {
    pub queries: usize,
    pub offloaded: usize,
    /// Queries and statements for which the memory pool was too small.
    pub refused: usize,
    cancelled: usize,
    inserts: usize,
    tables: usize,
    files: usize,
}

impl Count {
    pub fn add(&mut self, other: &Self) {
        self.queries += other.queries;
        self.offloaded += other.offloaded;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.inserts += other.inserts;
        self.tables += other.tables;
        self.files += other.files;
    }
}

pub(super) struct Client {
    /// What a failure says of it.
    name: String,
    rng: StdRng,
    ctx: SessionContext,
    stock: SessionContext,
    tables: Vec<&'static str>,
    own: Arc<MemTable>,
    ended: Ended,
}

/// What is left of a client.
pub(super) struct Ended {
    pub count: Count,
    /// When it dropped a table whose batches were still there at the last look, and an array of it.
    pub dropped: Vec<(Instant, Weak<dyn Array>)>,
    pub files: TempDir,
}

/// The error of a memory pool that is too small; no other one is expected.
fn is_refused(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(reason) if reason.contains("remain available for the total memory pool"))
}

/// The rows as lines, in any order.
fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let text = arrow::util::pretty::pretty_format_batches(batches).unwrap();
    let mut lines: Vec<_> = text.to_string().lines().map(String::from).collect();
    lines.sort_unstable();
    lines
}

impl Client {
    pub async fn new(
        n: u64,
        seed: u64,
        runtime: &Arc<BowtieRuntime>,
        shared: &SharedTables,
    ) -> Self {
        let pool = greedy(POOLS[n as usize % POOLS.len()]);
        let ctx = session_on(pool, Arc::clone(runtime));
        let stock = SessionContext::new();
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(n));
        set(&ctx, "bowtie.cache", "1MB");
        set(&ctx, "bowtie.offload", "force");
        change_options(&mut rng, &ctx, 0.5);
        let files = tempfile::tempdir().unwrap();
        let mut tables = shared.names();
        tables.extend(["own", "own"]);
        let mut client = Self {
            name: format!("client {n} of BOWTIE_SOAK_SEED={seed}"),
            rng,
            ctx,
            stock,
            tables,
            own: table(0, 1, 1),
            ended: Ended {
                count: Count::default(),
                dropped: vec![],
                files,
            },
        };
        client.make_table();
        if cfg!(feature = "parquet") {
            client.tables.push("own_file");
            client.write_files();
        }
        for ctx in [&client.ctx, &client.stock] {
            shared.register(ctx).await;
            if cfg!(feature = "parquet") {
                register_files(ctx, "own_file", &client.ended.files).await;
            }
        }
        client
    }

    pub async fn run(mut self, until: Instant) -> Ended {
        while Instant::now() < until {
            match self.rng.random_range(0..100) {
                0..60 => self.compare().await,
                60..75 => self.cancel().await,
                75..84 => self.insert().await,
                84..89 => self.make_table(),
                89..94 if cfg!(feature = "parquet") => self.write_files(),
                _ => change_options(&mut self.rng, &self.ctx, 0.3),
            }
            let rows = self.own.batches.iter().map(|batches| {
                let batches = batches.try_read().unwrap();
                batches.iter().map(RecordBatch::num_rows).sum::<usize>()
            });
            if rows.sum::<usize>() > MOST_ROWS {
                self.make_table();
            }
        }
        self.make_table();
        self.ended
    }

    /// Runs a query with and without bowtie.
    async fn compare(&mut self) {
        let sql = query(&mut self.rng, &self.tables);
        let expected = self.stock.sql(&sql).await.unwrap().collect().await;
        let expected = expected.unwrap_or_else(|error| panic!("{}: {sql}\n{error}", self.name));
        self.ended.count.queries += 1;
        let mut plan = String::new();
        let given = async {
            let node = plan_of(&self.ctx, &sql).await?;
            plan = shown(&node);
            collect(node, self.ctx.task_ctx()).await
        };
        let given = tokio::time::timeout(HANGS, given).await;
        let given = given.unwrap_or_else(|_| panic!("{} hangs: {sql}", self.name));
        self.ended.count.offloaded += usize::from(plan.contains("Bowtie"));
        let what = format!("{}: {sql}\n{plan}", self.name);
        if let Some(given) = self.allowed(&what, given) {
            assert_eq!(sorted(&expected), sorted(&given), "{what}");
        }
    }

    /// Drops the stream of a query, at some time or after its first batch.
    async fn cancel(&mut self) {
        let sql = query(&mut self.rng, &self.tables);
        let wait = Duration::from_micros(self.rng.random_range(0..30_000));
        let partial = async {
            let plan = plan_of(&self.ctx, &sql).await?;
            let mut stream = execute_stream(plan, self.ctx.task_ctx())?;
            match tokio::time::timeout(wait, stream.next()).await {
                Ok(Some(batch)) => batch.map(|_| ()),
                Ok(None) | Err(_) => Ok(()),
            }
        };
        let partial = partial.await;
        self.allowed(&format!("{}, cancelled: {sql}", self.name), partial);
        self.ended.count.cancelled += 1;
    }

    async fn insert(&mut self) {
        let n = self.rng.random_range(0..7);
        let table = match cfg!(feature = "parquet") && self.rng.random_bool(0.2) {
            true => "own_file",
            false => "own",
        };
        let sql = match self.rng.random_range(0..3) {
            0 => format!("INSERT INTO {table} VALUES ({n}, {n} * 1000, 'new 1'), (NULL, 5, NULL)"),
            1 => format!("INSERT INTO {table} SELECT k, v + 1, t FROM {table} WHERE v % 7 = {n}"),
            _ => {
                let other = self.tables[self.rng.random_range(0..self.tables.len())];
                format!(
                    "INSERT INTO {table} SELECT a.k, b.v, a.t FROM {table} a JOIN {other} b ON a.v = b.v WHERE a.k = {n}"
                )
            }
        };
        let inserted = async { self.ctx.sql(&sql).await?.collect().await };
        let inserted = inserted.await;
        self.allowed(&format!("{}: {sql}", self.name), inserted);
        self.ended.count.inserts += 1;
    }

    /// Drops its table in memory, and makes another one of the same name.
    fn make_table(&mut self) {
        let first = self.rng.random_range(0..3_000);
        // Large and small batches: of many arrays plans share a snapshot.
        let (rows, each) = match self.rng.random_bool(0.5) {
            true => (self.rng.random_range(1..4_000), 512),
            false => (self.rng.random_range(1_500..3_000), 4),
        };
        let old = std::mem::replace(&mut self.own, table(first, rows, each));
        for ctx in [&self.ctx, &self.stock] {
            ctx.deregister_table("own").unwrap();
            ctx.register_table("own", Arc::clone(&self.own) as _)
                .unwrap();
        }
        let array = Arc::downgrade(old.batches[0].try_read().unwrap()[0].column(1));
        drop(old);
        let dropped = &mut self.ended.dropped;
        dropped.retain(|(_, array)| array.strong_count() > 0);
        for (since, _) in dropped.iter() {
            let since = since.elapsed();
            assert!(since < BUSY_OUTLIVE, "{}: {since:?}", self.name);
        }
        dropped.push((Instant::now(), array));
        self.ended.count.tables += 1;
    }

    /// Writes some of its files, of the same or another length, and removes some.
    fn write_files(&mut self) {
        #[cfg(feature = "parquet")]
        {
            let directory = &self.ended.files;
            for entry in std::fs::read_dir(directory.path()).unwrap() {
                let path = entry.unwrap().path();
                let is_inserted = !path
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with("own");
                if self.rng.random_bool(if is_inserted { 0.5 } else { 0.1 }) {
                    std::fs::remove_file(path).unwrap();
                }
            }
            for n in 0..2 {
                let first = self.rng.random_range(0..3_000);
                let rows = [700, 700, 1_300][self.rng.random_range(0..3)];
                // Each version has a time of its own.
                let seconds = self.rng.random_bool(0.5);
                let seconds = seconds.then_some(1 + self.ended.count.files as u64);
                let name = format!("own_{n}.parquet");
                crate::memory::soak::tables::write_file(directory, &name, first, rows, seconds);
                self.ended.count.files += 1;
            }
        }
    }

    /// The result; `None` where the memory pool was too small.
    fn allowed<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        match result {
            Ok(result) => Some(result),
            Err(error) if is_refused(&error) => {
                self.ended.count.refused += 1;
                None
            }
            Err(error) => panic!("{what}\n{error}"),
        }
    }
}
