//! `bowtie_cache`, `bowtie_pin` and `bowtie_unpin`.

use crate::cache::{GROUPED, batch, lines, read, released, session, stored_bytes, table};
use crate::support::session::{device, set};

const LISTED: &str = "SELECT \"table\", \"column\", rows, hits, pinned FROM bowtie_cache()";

#[tokio::test]
async fn stored_columns_are_listed() {
    let (ctx, _) = session(64 << 20, "32MB");
    assert!(lines(&ctx, LISTED).await.is_empty());
    ctx.register_table("r", table(vec![vec![batch(0, 900)], vec![batch(900, 100)]]))
        .unwrap();
    read(&ctx, GROUPED).await;
    read(&ctx, GROUPED).await;
    let expected = [
        "| r     | k      | 1000 | 1    | false  |",
        "| r     | t      | 1000 | 1    | false  |",
        "| r     | v      | 1000 | 1    | false  |",
    ];
    assert_eq!(lines(&ctx, LISTED).await, expected);
    let bytes = lines(
        &ctx,
        "SELECT bytes FROM bowtie_cache() WHERE \"column\" = 'v' AND idle_seconds < 60",
    )
    .await;
    assert_eq!(bytes, [format!("| {}  |", stored_bytes(8000, 2000))]);
    let other = lines(&ctx, "SELECT DISTINCT device FROM bowtie_cache()").await;
    assert!(
        other[0].contains(device().trim_end_matches(":0")),
        "{other:?}"
    );
}

#[tokio::test]
async fn columns_are_pinned_and_unpinned() {
    let (ctx, _) = session(64 << 20, "1MB");
    ctx.register_table(
        "r",
        table(vec![vec![batch(0, 5_000)], vec![batch(5_000, 1)]]),
    )
    .unwrap();
    ctx.register_table("s", table(vec![vec![batch(0, 60_000)]]))
        .unwrap();
    let pinned = lines(
        &ctx,
        "SELECT \"column\", bytes, reason FROM bowtie_pin('r', 'v, k')",
    )
    .await;
    let bytes = |codes| format!("{:<5}", stored_bytes(40_008, codes));
    let of = |column, codes| format!("| {column}      | {} |        |", bytes(codes));
    assert_eq!(pinned, [of("v", 10_002), of("k", 5_001)]);
    // They stay, whatever is stored or needed after them.
    for _ in 0..2 {
        lines(&ctx, &GROUPED.replace(" r ", " s ")).await;
    }
    let (resident, sent) = read(&ctx, "SELECT k, sum(v) FROM r GROUP BY k ORDER BY k").await;
    assert_eq!((resident, sent), (stored_bytes(80_016, 15_003), 0));
    let expected = [
        "| r     | k      | 5001 | 1    | true   |",
        "| r     | v      | 5001 | 1    | true   |",
    ];
    let of_r = format!("{LISTED} WHERE \"table\" = 'r' AND pinned");
    assert_eq!(lines(&ctx, &of_r).await, expected);
    let freed = lines(&ctx, "SELECT \"column\", bytes FROM bowtie_unpin('r')").await;
    let of = |column, codes| format!("| {column}      | {} |", bytes(codes));
    assert_eq!(
        freed,
        [of("k", 5_001), of("v", 10_002), "| t      | 0     |".into()]
    );
    assert!(lines(&ctx, &of_r).await.is_empty());
}

/// Rows that come later, and pieces that are cut in another way, change nothing.
#[tokio::test]
async fn what_was_pinned_is_unpinned() {
    let (ctx, runtime) = session(64 << 20, "32MB");
    ctx.register_table("r", table(vec![vec![batch(0, 500)], vec![batch(500, 7)]]))
        .unwrap();
    for round in 0..3 {
        lines(&ctx, "SELECT * FROM bowtie_pin('r', 'k')").await;
        let pinned = lines(
            &ctx,
            "SELECT rows, pinned FROM bowtie_cache() WHERE \"column\" = 'k'",
        )
        .await;
        assert_eq!(pinned, [format!("| {}  | true   |", 507 + round)]);
        lines(&ctx, "INSERT INTO r VALUES (1, 2, 'more')").await;
        read(&ctx, GROUPED).await;
    }
    set(&ctx, "bowtie.chunk_rows", "100");
    lines(&ctx, "SELECT * FROM bowtie_unpin('r')").await;
    assert!(lines(&ctx, LISTED).await.is_empty());
    released(&runtime).await;
}

#[tokio::test]
async fn what_cannot_be_pinned_has_a_reason() {
    let (ctx, _) = session(64 << 20, "1MB");
    ctx.register_table("s", table(vec![vec![batch(0, 200_000)]]))
        .unwrap();
    let reasons = |lines: Vec<String>| lines.join("\n");
    let large = reasons(lines(&ctx, "SELECT * FROM bowtie_pin('s', 't')").await);
    assert!(
        large.contains("there is not enough memory for all of it: raise bowtie.cache"),
        "{large}"
    );
    set(&ctx, "bowtie.cache", "off");
    let off = reasons(lines(&ctx, "SELECT * FROM bowtie_pin('s')").await);
    assert!(off.contains("bowtie.cache keeps no columns"), "{off}");
    set(&ctx, "bowtie.cache", "32MB");
    lines(&ctx, "CREATE VIEW w AS SELECT k FROM s WHERE v > 7").await;
    let view = reasons(lines(&ctx, "SELECT * FROM bowtie_pin('w')").await);
    assert!(
        view.contains("neither in memory nor of whole Parquet files"),
        "{view}"
    );
}

#[tokio::test]
async fn wrong_arguments_are_refused() {
    let (ctx, _) = session(64 << 20, "1MB");
    ctx.register_table("r", table(vec![vec![batch(0, 10)]]))
        .unwrap();
    let cases = [
        ("bowtie_cache(1)", "bowtie_cache takes no argument"),
        (
            "bowtie_pin()",
            "bowtie_pin takes a table and, if you like, its columns",
        ),
        ("bowtie_pin(1)", "bowtie_pin takes a table"),
        ("bowtie_unpin('r', 'k', 'v')", "bowtie_unpin takes a table"),
        (
            "bowtie_pin('nobody')",
            "bowtie_pin: there is no table 'nobody'",
        ),
        (
            "bowtie_unpin('a.b.c')",
            "bowtie_unpin: there is no table 'a.b.c'",
        ),
        (
            "bowtie_pin('r', 'k, w')",
            "bowtie_pin: table 'r' has no column 'w': it has k, v, t",
        ),
    ];
    for (call, expected) in cases {
        let failed = async {
            ctx.sql(&format!("SELECT * FROM {call}"))
                .await?
                .collect()
                .await
        };
        let error = failed.await.unwrap_err().to_string();
        assert!(error.contains(expected), "{call}: {error}");
    }
}

/// `bowtie_explain` tells what of a scan is on the device, and what would be sent.
#[tokio::test]
async fn explained_scans_tell_what_is_stored() {
    let (ctx, _) = session(64 << 20, "32MB");
    ctx.register_table("r", table(vec![vec![batch(0, 1_000)]]))
        .unwrap();
    let explained = async || {
        let scans = "SELECT detail, resident_bytes, bytes_up, reason FROM bowtie_explain('SELECT k, sum(v) FROM r GROUP BY k') WHERE node = 'BowtieScanExec'";
        lines(&ctx, scans).await
    };
    let [before] = &explained().await[..] else {
        panic!("one scan")
    };
    let of = |line: &str, at: usize| line.split('|').nth(at).unwrap().trim().to_string();
    assert_eq!(of(before, 1), "k, v");
    assert_eq!([of(before, 2), of(before, 3)], ["0", "16000"], "{before}");
    assert!(before.contains("its columns are sent"), "{before}");
    lines(&ctx, "SELECT sum(v) FROM r").await;
    let [part] = &explained().await[..] else {
        panic!("one scan")
    };
    let resident = stored_bytes(8_000, 2_000).to_string();
    assert_eq!(
        [of(part, 2), of(part, 3)],
        [resident, "8000".into()],
        "{part}"
    );
    read(&ctx, "SELECT k, sum(v) FROM r GROUP BY k ORDER BY k").await;
    let [after] = &explained().await[..] else {
        panic!("one scan")
    };
    assert_eq!(of(after, 3), "0");
    assert!(after.contains("its columns are on the device"), "{after}");
}
