//! `bowtie_pin` and `bowtie_unpin` of tables of files.

use tempfile::tempdir;

use crate::cache::parquet::{create, encoded, listing_session, write, write_at};
use crate::cache::{GROUPED, batch, lines, measured, released};

#[tokio::test]
async fn columns_of_files_are_pinned_and_unpinned() {
    let (ctx, runtime) = listing_session(64 << 20, "1MB").await;
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 5_000)], 700);
    write(&files.path().join("b.parquet"), &[batch(5_000, 1)], 700);
    create(&ctx, &files).await;
    let pinned = lines(
        &ctx,
        "SELECT \"column\", bytes, reason FROM bowtie_pin('r', 'v, k')",
    )
    .await;
    assert_eq!(
        pinned,
        ["| v      | 10002 |        |", "| k      | 5001  |        |"]
    );
    let read = measured(&ctx, "SELECT k, sum(v) FROM r GROUP BY k ORDER BY k").await;
    assert_eq!((read.resident, read.sent, read.values), (15_003, 0, 0));
    let listed = "SELECT \"table\", \"column\", rows, pinned FROM bowtie_cache()";
    let expected = [
        "| r     | k      | 5001 | true   |",
        "| r     | v      | 5001 | true   |",
    ];
    assert_eq!(lines(&ctx, listed).await, expected);
    // A file that is gone, and one that is written again.
    std::fs::remove_file(files.path().join("b.parquet")).unwrap();
    write_at(
        &files.path().join("a.parquet"),
        &encoded(&[batch(1, 5_000)], 700),
        1,
    );
    measured(&ctx, GROUPED).await;
    lines(&ctx, "SELECT * FROM bowtie_pin('r', 'k')").await;
    let stored = lines(&ctx, &format!("{listed} WHERE \"column\" = 'k'")).await;
    assert_eq!(stored, ["| r     | k      | 5000 | true   |"]);
    lines(&ctx, "SELECT * FROM bowtie_unpin('r')").await;
    assert!(lines(&ctx, listed).await.is_empty());
    released(&runtime).await;
}

#[tokio::test]
async fn what_has_no_room_is_not_pinned() {
    let (ctx, _) = listing_session(64 << 20, "1MB").await;
    let files = tempdir().unwrap();
    write(
        &files.path().join("a.parquet"),
        &[batch(0, 200_000)],
        50_000,
    );
    create(&ctx, &files).await;
    let large = lines(&ctx, "SELECT * FROM bowtie_pin('r', 't')")
        .await
        .join("\n");
    assert!(
        large.contains("there is not enough memory for all of it"),
        "{large}"
    );
    assert!(
        lines(&ctx, "SELECT * FROM bowtie_cache() WHERE pinned")
            .await
            .is_empty()
    );
}

/// What is pinned of a table that was dropped makes room as what is not pinned does.
#[tokio::test]
async fn pins_go_with_their_table() {
    let (ctx, _) = listing_session(64 << 20, "32MB").await;
    let files = tempdir().unwrap();
    write(&files.path().join("a.parquet"), &[batch(0, 500)], 100);
    create(&ctx, &files).await;
    lines(&ctx, "SELECT * FROM bowtie_pin('r', 'v')").await;
    let pinned = "SELECT count(*) FROM bowtie_cache() WHERE pinned";
    assert_eq!(lines(&ctx, pinned).await, ["| 1        |"]);
    lines(&ctx, "DROP TABLE r").await;
    assert_eq!(lines(&ctx, pinned).await, ["| 0        |"]);
    // It is there for a table of the same files.
    create(&ctx, &files).await;
    assert!(
        measured(&ctx, "SELECT sum(v), count(*) FROM r")
            .await
            .resident
            > 0
    );
}
