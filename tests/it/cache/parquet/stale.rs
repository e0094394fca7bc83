//! A stored column of files is never stale.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use tempfile::tempdir;

use crate::cache::parquet::{create, encoded, listing_session, write, write_at};
use crate::cache::{GROUPED, batch, lines, measured, measured_as, session};

/// Batches of as many bytes in a file, with other values.
fn versions() -> Vec<RecordBatch> {
    (0..4).map(|n| batch(100_000 + 3 * n, 500)).collect()
}

const SUM: &str = "SELECT count(*), sum(v), min(t) FROM r";

#[tokio::test]
async fn a_file_is_written_again() {
    let (ctx, runtime) = listing_session(64 << 20, "32MB").await;
    let files = tempdir().unwrap();
    let path = files.path().join("a.parquet");
    write(&files.path().join("b.parquet"), &[batch(0, 300)], 300);
    write(&path, &[batch(0, 500)], 100);
    create(&ctx, &files).await;
    crate::support::session::set(&ctx, "bowtie.chunk_rows", "500");
    let first = measured(&ctx, GROUPED).await;
    let mut last = first;
    for (round, version) in versions().into_iter().enumerate() {
        write_at(&path, &encoded(&[version], 100), 1 + round as u64);
        let read = measured(&ctx, GROUPED).await;
        // The other file's columns stay.
        assert_eq!(read.values, 500 * 3, "{round}");
        assert!(read.resident > 0 && read.sent > 500 * 16, "{read:?}");
        last = read;
        assert_eq!(measured(&ctx, GROUPED).await.values, 0);
    }
    // Columns of what was overwritten are gone.
    let in_use = runtime.device_memory()[0].in_use as usize;
    let known = last.resident + last.sent;
    // A GPU's buffers are a little longer than their values.
    assert!(
        (known..known + known / 50).contains(&in_use),
        "{in_use} {known}"
    );
}

/// DataFusion's list of files is older than a file that has the same size.
#[tokio::test]
async fn a_listed_file_is_written_again() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    let path = files.path().join("a.parquet");
    let versions = versions();
    let contents: Vec<_> = versions
        .iter()
        .map(|v| encoded(std::slice::from_ref(v), 100))
        .collect();
    assert_eq!(contents[0].len(), contents[1].len());
    write_at(&path, &contents[0], 0);
    create(&ctx, &files).await;
    let query = "SELECT k, sum(v), count(*) FROM r WHERE v > 100100 GROUP BY k ORDER BY k";
    let sums = |n: i64| {
        let of = |k: i64| {
            let values =
                (100_000 + 3 * n..100_500 + 3 * n).filter(move |v| v % 7 == k && *v > 100_100);
            (values.clone().sum::<i64>(), values.count())
        };
        let rows = (0..7).map(|k| {
            let (sum, count) = of(k);
            format!("| {k} | {sum}  | {count}       |")
        });
        rows.collect::<Vec<_>>()
    };
    for (n, content) in contents.iter().enumerate() {
        write_at(&path, content, n as u64);
        let read = measured_as(&ctx, query, &sums(n as i64)).await;
        assert_eq!(read.values, 1_000, "{n}");
        let again = measured_as(&ctx, query, &sums(n as i64)).await;
        assert_eq!((again.values, again.sent), (0, 0), "{n}");
    }
}

/// Files come and go; what is stored of the others is used again.
#[tokio::test]
async fn files_come_and_go() {
    let (ctx, _) = listing_session(64 << 20, "32MB").await;
    crate::support::session::set(&ctx, "bowtie.chunk_rows", "300");
    let files = tempdir().unwrap();
    let path = |name: &str| files.path().join(format!("{name}.parquet"));
    for (n, name) in ["b", "d", "f"].into_iter().enumerate() {
        write(&path(name), &[batch(n as i64 * 1_000, 300)], 100);
    }
    create(&ctx, &files).await;
    let all = measured(&ctx, GROUPED).await;
    assert_eq!(all.values, 3 * 900);
    for name in ["a", "c", "g"] {
        write(&path(name), &[batch(77, 300)], 100);
        let read = measured(&ctx, GROUPED).await;
        assert_eq!(read.values, 3 * 300, "{name}");
    }
    for name in ["b", "g"] {
        std::fs::remove_file(path(name)).unwrap();
        let read = measured(&ctx, GROUPED).await;
        assert_eq!((read.values, read.sent), (0, 0), "{name}");
    }
    // The same path again, with other rows.
    write_at(&path("b"), &encoded(&[batch(123, 300)], 100), 5);
    assert_eq!(measured(&ctx, GROUPED).await.values, 3 * 300);
}

/// A file that was written a moment ago may be written again at the same time: nothing is stored of it.
#[tokio::test]
async fn a_file_of_this_moment() {
    let (ctx, _) = listing_session(64 << 20, "32MB").await;
    let files = tempdir().unwrap();
    let path = files.path().join("a.parquet");
    write(&path, &[batch(0, 500)], 100);
    create(&ctx, &files).await;
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(100);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(ahead).unwrap();
    for _ in 0..2 {
        // It is read by each query, and not once more to be stored.
        let read = measured(&ctx, GROUPED).await;
        assert_eq!((read.values, read.resident), (0, 0));
    }
    assert!(lines(&ctx, "SELECT * FROM bowtie_cache()").await.is_empty());
}

/// A table is made again of other files, and with another schema.
#[tokio::test]
async fn a_table_is_made_again() {
    let (ctx, _) = session(64 << 20, "32MB");
    let [one, other] = [tempdir().unwrap(), tempdir().unwrap()];
    write(&one.path().join("a.parquet"), &[batch(0, 500)], 100);
    write(&other.path().join("a.parquet"), &[batch(9, 500)], 100);
    for (round, files) in [&one, &other, &one, &other].into_iter().enumerate() {
        create(&ctx, files).await;
        let read = measured(&ctx, SUM).await;
        assert_eq!(read.values, [1_000, 0][round / 2], "{round}");
        lines(&ctx, "DROP TABLE r").await;
    }
    let path = one.path().display();
    for (round, (k, v)) in [("INT", "DOUBLE"), ("BIGINT", "INT"), ("INT", "INT")]
        .into_iter()
        .enumerate()
    {
        let sql = format!(
            "CREATE EXTERNAL TABLE r (k {k}, v {v}, t VARCHAR) STORED AS PARQUET LOCATION '{path}/'"
        );
        lines(&ctx, &sql).await;
        let read = measured(&ctx, "SELECT k, sum(v) FROM r GROUP BY k ORDER BY k").await;
        assert_eq!(read.values, [1_000, 1_000, 0][round], "{round}");
        lines(&ctx, "DROP TABLE r").await;
    }
}

/// An object is overwritten, and its store registered anew.
#[tokio::test]
async fn objects_are_overwritten() {
    let (ctx, _) = listing_session(64 << 20, "32MB").await;
    let url = ObjectStoreUrl::parse("memory://bucket").unwrap();
    let put = async |store: &Arc<dyn ObjectStore>, version: &RecordBatch| {
        let bytes = encoded(std::slice::from_ref(version), 100);
        store
            .put(&Path::from("t/a.parquet"), bytes.into())
            .await
            .unwrap();
    };
    let mut created = false;
    for _ in 0..2 {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        ctx.register_object_store(url.as_ref(), Arc::clone(&store));
        for version in versions() {
            put(&store, &version).await;
            if !created {
                lines(
                    &ctx,
                    "CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION 'memory://bucket/t/'",
                )
                .await;
                created = true;
            }
            assert_eq!(measured(&ctx, GROUPED).await.values, 1_500);
            assert_eq!(measured(&ctx, GROUPED).await.values, 0);
        }
    }
    let stored = lines(&ctx, "SELECT DISTINCT \"table\" FROM bowtie_cache()").await;
    assert_eq!(stored, ["| r     |"]);
    lines(&ctx, "DROP TABLE r").await;
    let stored = lines(&ctx, "SELECT DISTINCT \"table\" FROM bowtie_cache()").await;
    assert_eq!(stored, ["| memory://bucket/t/a.parquet |"]);
}
