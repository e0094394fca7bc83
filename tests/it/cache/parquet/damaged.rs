//! Files that are cut off or altered: a query of them has the rows that DataFusion reads, or an error. It never panics, also where DataFusion alone does.

use std::path::Path;
use std::time::Duration;

use arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use tempfile::tempdir;
use tokio::time::timeout;

use crate::cache::parquet::{encoded, listing_session, write_at};
use crate::cache::{batch, lines, measured};
use crate::support::damage::altered;
use crate::support::session::set;

/// They read all values, and what a footer says of these decides nothing.
const QUERIES: [&str; 2] = [
    "SELECT k, count(*), count(t), min(v), max(v), min(t), max(t) FROM r GROUP BY k ORDER BY k",
    "SELECT k, v, t FROM r WHERE v % 5 <> 1 ORDER BY v, k, t",
];

const ROWS: i64 = 600;

/// The answer to a query.
#[derive(Debug, PartialEq)]
enum Outcome {
    Rows(String),
    Error(String),
    Panic,
}

async fn outcome(ctx: &SessionContext, sql: &str) -> Outcome {
    let (ctx, sql) = (ctx.clone(), sql.to_string());
    let query = tokio::spawn(async move {
        let batches = ctx.sql(&sql).await?.collect().await?;
        Ok::<_, DataFusionError>(pretty_format_batches(&batches)?.to_string())
    });
    let ended = timeout(Duration::from_secs(60), query).await;
    match ended.expect("a query hangs") {
        Ok(Ok(rows)) => Outcome::Rows(rows),
        Ok(Err(error)) => Outcome::Error(error.strip_backtrace()),
        Err(_) => Outcome::Panic,
    }
}

/// How many queries DataFusion answered in which way.
#[derive(Debug, Default)]
struct Counts {
    rows: usize,
    errors: usize,
    panics: usize,
}

/// Sessions with table `r` of one file.
struct Files {
    ctx: SessionContext,
    directory: tempfile::TempDir,
    written: usize,
    /// The answers to the queries from the whole file.
    intact: Vec<Outcome>,
    counts: Counts,
}

impl Files {
    async fn new(whole: &[u8]) -> Self {
        let (ctx, _) = listing_session(64 << 20, "32MB").await;
        let mut files = Self {
            ctx,
            directory: tempdir().unwrap(),
            written: 0,
            intact: vec![],
            counts: Counts::default(),
        };
        assert!(matches!(files.create(whole).await, Outcome::Rows(_)));
        for sql in QUERIES {
            // Its scan is bowtie's.
            measured(&files.ctx, sql).await;
            files.intact.push(outcome(&files.ctx, sql).await);
        }
        lines(&files.ctx, "DROP TABLE r").await;
        files
    }

    /// Makes the table of a new file.
    async fn create(&mut self, bytes: &[u8]) -> Outcome {
        // Nothing that is kept of another file is taken for this one's.
        let folder = self.directory.path().join(self.written.to_string());
        write_at(&folder.join("a.parquet"), bytes, self.written as u64);
        self.written += 1;
        outcome(&self.ctx, &create(&folder)).await
    }

    /// Compares the answers to the queries from a file.
    async fn check(&mut self, what: &str, bytes: &[u8]) {
        let made = self.create(bytes).await;
        if !matches!(made, Outcome::Rows(_)) {
            self.counts.errors += 1;
            return;
        }
        for (sql, intact) in QUERIES.iter().zip(&self.intact) {
            set(&self.ctx, "bowtie.offload", "off");
            let stock = outcome(&self.ctx, sql).await;
            set(&self.ctx, "bowtie.offload", "force");
            // What the first one has stored, the second one may find.
            for round in 0..2 {
                let given = outcome(&self.ctx, sql).await;
                let is_right = match (&stock, &given) {
                    (Outcome::Rows(_), _) => given == stock,
                    // DataFusion may look at more of the file.
                    (_, Outcome::Rows(_)) => given == *intact,
                    (Outcome::Error(_), _) => matches!(given, Outcome::Error(_)),
                    (Outcome::Panic, _) => given != Outcome::Panic,
                };
                assert!(
                    is_right,
                    "{what}, round {round}: {sql}\nDataFusion: {stock:?}\nbowtie: {given:?}"
                );
            }
            match stock {
                Outcome::Rows(_) => self.counts.rows += 1,
                Outcome::Error(_) => self.counts.errors += 1,
                Outcome::Panic => self.counts.panics += 1,
            }
        }
        lines(&self.ctx, "DROP TABLE r").await;
    }
}

fn create(folder: &Path) -> String {
    let folder = folder.display();
    format!("CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION '{folder}/'")
}

/// The bytes of a file, and how many of them are before the footer.
fn whole() -> (Vec<u8>, usize) {
    let bytes = encoded(&[batch(0, ROWS)], 200);
    let end = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
    let body = end - length as usize;
    (bytes, body)
}

#[tokio::test]
async fn files_that_are_cut_off() {
    let (whole, body) = whole();
    let mut files = Files::new(&whole).await;
    for length in (0..whole.len()).step_by(whole.len() / 20 + 1) {
        files
            .check(&format!("{length} bytes"), &whole[..length])
            .await;
    }
    // Values are missing, and the footer is there.
    for from in (4..body).step_by(body / 20 + 1) {
        let missing = from..(from + 50).min(body);
        let what = format!("without {missing:?}");
        let rest = [&whole[..missing.start], &whole[missing.end..]].concat();
        files.check(&what, &rest).await;
    }
    assert!(files.counts.errors > 20, "{:?}", files.counts);
}

#[tokio::test]
async fn values_that_are_altered() {
    let (whole, body) = whole();
    let mut files = Files::new(&whole).await;
    for other in altered(&whole, 4..body, 60) {
        let what = format!("{:?}", other.places);
        files.check(&what, &other.bytes).await;
    }
    let Counts { rows, errors, .. } = files.counts;
    assert!(rows > 0 && errors > 0, "{:?}", files.counts);
}

#[tokio::test]
async fn footers_that_are_altered() {
    let (whole, body) = whole();
    let mut files = Files::new(&whole).await;
    for other in altered(&whole, body..whole.len(), 60) {
        let what = format!("{:?}", other.places);
        files.check(&what, &other.bytes).await;
    }
    let Counts { rows, errors, .. } = files.counts;
    assert!(rows > 0 && errors > 0, "{:?}", files.counts);
}
