//! The second query reads no file.

use tempfile::tempdir;

use crate::cache::parquet::{create, listing_session, write};
use crate::cache::{GROUPED, Read, batch, lines, measured, session, stock_lines};
use crate::support::answer::{analyzed, plan_of, shown};
use crate::support::session::set;

#[tokio::test]
async fn the_second_query_reads_nothing() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 900)], 256);
    write(&files.path().join("b.parquet"), &[batch(900, 37)], 10);
    write(&files.path().join("c.parquet"), &[batch(0, 0)], 10);
    write(&files.path().join("d.parquet"), &[batch(937, 1)], 10);
    create(&ctx, &files).await;
    let first = measured(&ctx, GROUPED).await;
    assert_eq!(first.values, 938 * 3);
    assert!(first.resident == 0 && first.sent > 938 * 16 && first.bytes > 5_000);
    let second = Read {
        resident: first.sent,
        ..Read::default()
    };
    assert_eq!(measured(&ctx, GROUPED).await, second);
    // A join of two scans, of the same columns.
    let join =
        "SELECT count(*), sum(a.v), min(b.t) FROM r a JOIN r b ON a.v = b.v AND a.k < b.k + 1";
    let third = measured(&ctx, join).await;
    assert!(
        (third.bytes, third.sent) == (0, 0) && third.resident > 938 * 6,
        "{third:?}"
    );
    let stored = "SELECT \"table\", \"column\", rows, hits FROM bowtie_cache()";
    let stored = lines(&ctx, stored).await;
    assert_eq!(stored.len(), 3);
    assert!(
        stored[0].starts_with("| r     | k      | 938 "),
        "{stored:?}"
    );
}

/// Columns that a query does not need are not read, and only these are read later.
#[tokio::test]
async fn other_columns_come_later() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 1_000)], 100);
    create(&ctx, &files).await;
    let of =
        |column: &str| format!("SELECT count(*) AS n, {column} FROM r GROUP BY k % 1 ORDER BY n");
    let one = measured(&ctx, &of("sum(k)")).await;
    assert_eq!((one.resident, one.values), (0, 1_000));
    let two = measured(&ctx, &of("max(v), sum(k)")).await;
    assert_eq!((two.resident, two.values), (one.sent, 1_000));
    let three = measured(&ctx, GROUPED).await;
    assert_eq!((three.resident, three.values), (one.sent + two.sent, 1_000));
    let all = measured(&ctx, GROUPED).await;
    assert_eq!((all.sent, all.values, all.bytes), (0, 0, 0));
    // No column at all.
    let none = "SELECT count(*), count(*) + 1 FROM r a JOIN (SELECT count(*) AS n FROM r WHERE v < 3) b ON b.n > 1";
    assert_eq!(measured(&ctx, none).await.values, 0);
}

/// Pieces are whole row groups, and the same ones for all queries.
#[tokio::test]
async fn pieces_of_row_groups() {
    let (ctx, _) = session(64 << 20, "32MB");
    set(&ctx, "bowtie.chunk_rows", "250");
    let files = tempdir().unwrap();
    for (name, rows, group) in [
        ("a", 1_037, 100),
        ("b", 240, 7),
        ("c", 999, 400),
        ("d", 3, 1),
    ] {
        let path = files.path().join(format!("{name}.parquet"));
        write(&path, &[batch(7 * rows, rows)], group);
    }
    create(&ctx, &files).await;
    let first = measured(&ctx, GROUPED).await;
    assert_eq!(first.values, 3 * 2_279);
    let second = measured(&ctx, GROUPED).await;
    assert_eq!(
        (second.resident, second.sent, second.bytes),
        (first.sent, 0, 0)
    );
    // a: 5 × 200, 37; b: 238, 2; c: 400, 400, 199; d: 3.
    let hits = "SELECT hits FROM bowtie_cache() WHERE \"column\" = 'v'";
    let pieces = lines(&ctx, hits).await;
    let pieces: usize = pieces[0].trim_matches(['|', ' ']).parse().unwrap();
    assert!((9..=11).contains(&pieces), "{pieces}");
}

#[tokio::test]
async fn explain_shows_files_and_what_was_read() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        write(
            &files.path().join(format!("{name}.parquet")),
            &[batch(0, 90)],
            50,
        );
    }
    create(&ctx, &files).await;
    let plan = shown(&plan_of(&ctx, GROUPED).await.unwrap());
    assert!(plan.contains("BowtieFilterExec"), "{plan}");
    let scan = plan
        .lines()
        .find(|line| line.contains("BowtieScanExec"))
        .unwrap();
    assert!(
        scan.contains("a.parquet") && scan.contains("c.parquet, 2 more]"),
        "{scan}"
    );
    let first = analyzed(&ctx, GROUPED).await;
    for metric in [
        "uploaded_bytes=",
        "read_bytes=",
        "decoded_values=1.35 K",
        "resident_bytes=",
    ] {
        assert!(first.contains(metric), "{metric}: {first}");
    }
}

/// What is not made of whole files is uploaded.
#[tokio::test]
async fn limits_and_other_formats_are_uploaded() {
    let (ctx, _) = session(64 << 20, "32MB");
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 900)], 100);
    create(&ctx, &files).await;
    let limited = "SELECT count(*), count(v) FROM (SELECT v FROM r LIMIT 10) AS x";
    let csv = files.path().join("csv");
    lines(
        &ctx,
        &format!("COPY r TO '{}/' STORED AS CSV", csv.display()),
    )
    .await;
    let create = format!(
        "CREATE EXTERNAL TABLE s (k BIGINT, v BIGINT, t VARCHAR) STORED AS CSV LOCATION '{}/'",
        csv.display()
    );
    lines(&ctx, &create).await;
    for sql in [limited, &GROUPED.replace(" r ", " s ")] {
        let plan = shown(&plan_of(&ctx, sql).await.unwrap());
        assert!(!plan.contains("BowtieScanExec"), "{plan}");
        assert_eq!(lines(&ctx, sql).await, stock_lines(&ctx, sql).await);
    }
}

/// Of rows that tie the first one is DataFusion's, though the ends of files are read behind their whole pieces.
#[tokio::test]
async fn the_first_of_rows_that_tie() {
    let (ctx, _) = listing_session(64 << 20, "32MB").await;
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 100)], 100);
    write(&files.path().join("b.parquet"), &[batch(100, 400)], 300);
    create(&ctx, &files).await;
    crate::support::session::set(&ctx, "bowtie.chunk_rows", "300");
    crate::support::session::set(&ctx, "datafusion.execution.target_partitions", "1");
    for function in ["first_value", "last_value"] {
        let sql = format!("SELECT k, {function}(v ORDER BY k) FROM r GROUP BY k ORDER BY k");
        let expected = crate::cache::stock_lines(&ctx, &sql).await;
        for _ in 0..2 {
            assert_eq!(lines(&ctx, &sql).await, expected, "{sql}");
        }
    }
}
