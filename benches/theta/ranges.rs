//! Cases of ranges as they are met in practice: intervals of a genome, last and nearest values, sums over the points
//! that dominate each one.

use super::cases::{Case, rectangles, squares};
use super::datasets;
use super::genome;
use super::oracle;
use super::support::answer::Expected;
use super::support::table::Table;

/// All cases, in the order of the report.
pub fn all() -> Vec<Case> {
    vec![
        // The sum reads both sides, so that every overlap has to be found.
        of_genome(
            "genome-overlaps",
            "SELECT SUM(CAST(a.id AS BIGINT) + b.id) FROM a JOIN b ON a.chrom = b.chrom AND a.lo <= b.hi AND b.lo <= a.hi",
            genome::overlaps,
            Some(0),
        ),
        of_genome(
            "genome-rows",
            "SELECT a.id, b.id FROM a JOIN b ON a.chrom = b.chrom AND a.lo <= b.hi AND b.lo <= a.hi",
            genome::rows,
            None,
        ),
        of_genome(
            "genome-counts",
            "SELECT a.id, COUNT(*) FROM a JOIN b ON a.chrom = b.chrom AND a.lo <= b.hi AND b.lo <= a.hi GROUP BY a.id",
            genome::counts,
            Some(1),
        ),
        of_genome(
            "genome-sums",
            "SELECT a.id, SUM(b.score) FROM a JOIN b ON a.chrom = b.chrom AND a.lo <= b.hi AND b.lo <= a.hi GROUP BY a.id",
            genome::sums,
            Some(1),
        ),
        of_genome(
            "genome-contained",
            "SELECT COUNT(*) FROM a JOIN b ON a.chrom = b.chrom AND a.lo <= b.lo AND b.hi <= a.hi",
            genome::contained,
            Some(0),
        ),
        // This crate runs the subquery with bowtie.offload off, too; DataFusion by itself has no plan for it.
        of_trades(
            "as-of",
            "SELECT trades.id, q.price FROM trades, LATERAL (SELECT * FROM quotes q WHERE q.k = trades.k AND q.t <= trades.t ORDER BY q.t DESC LIMIT 1) q",
        ),
        // As `id` may repeat, DataFusion numbers the rows that the join keeps.
        of_trades(
            "as-of-numbered",
            "SELECT id, price FROM (SELECT trades.id, q.price, row_number() OVER (PARTITION BY trades.id ORDER BY q.t DESC) AS n \
             FROM trades JOIN quotes q ON q.k = trades.k AND q.t <= trades.t) WHERE n = 1",
        ),
        // Within 50, where nearly every reading has an event. Without a bound DataFusion would number all pairs.
        Case {
            name: "nearest",
            sql: "SELECT r.id, abs(n.t - r.t) FROM readings r, LATERAL (SELECT * FROM events e WHERE e.t BETWEEN r.t - 50 AND r.t + 50 ORDER BY abs(e.t - r.t) LIMIT 1) n",
            data: "band",
            dataset: |size| datasets::band(size.left),
            oracle: oracle::nearest,
            sum: Some(1),
            ladders: vec![squares(&[10_000, 30_000, 100_000, 1_000_000, 10_000_000])],
            keys: |_| 1,
            brute_force: false,
            one_inequality: false,
        },
        Case {
            name: "dominance-sums",
            sql: "SELECT r.id, SUM(s.x) FROM r JOIN s ON r.a < s.a AND r.b > s.b GROUP BY r.id",
            data: "weighted",
            dataset: |size| datasets::weighted(size.left),
            oracle: oracle::dominance_sums,
            sum: Some(1),
            ladders: vec![squares(&[10_000, 30_000, 100_000, 1_000_000, 10_000_000])],
            keys: |_| 1,
            brute_force: false,
            one_inequality: false,
        },
        // No order of one column makes the ranges of another short.
        Case {
            name: "three-sums",
            sql: "SELECT SUM(s.x) FROM r JOIN s ON r.a < s.a AND r.b > s.b AND r.x < s.x",
            data: "weighted",
            dataset: |size| datasets::weighted(size.left),
            oracle: oracle::three_sums,
            sum: Some(0),
            ladders: vec![squares(&[10_000, 30_000, 100_000])],
            keys: |_| 1,
            brute_force: false,
            one_inequality: false,
        },
    ]
}

/// A case of intervals in 24 contigs: few long ones, many short ones. The third size has about 120 million overlaps.
fn of_genome(
    name: &'static str,
    sql: &'static str,
    oracle: fn(&[Table]) -> Expected,
    sum: Option<usize>,
) -> Case {
    Case {
        name,
        sql,
        data: "genome",
        dataset: |size| datasets::genome(size.left, size.right),
        oracle,
        sum,
        ladders: vec![rectangles(&[
            (12_000, 100_000),
            (120_000, 1_000_000),
            (1_200_000, 10_000_000),
            (2_000_000, 50_000_000),
        ])],
        keys: |_| datasets::CONTIGS,
        brute_force: false,
        one_inequality: false,
    }
}

/// A case of the last quote of each trade, whose price is the second column.
fn of_trades(name: &'static str, sql: &'static str) -> Case {
    Case {
        name,
        sql,
        data: "trades",
        dataset: |size| datasets::trades(size.left, size.right),
        oracle: oracle::as_of,
        sum: Some(1),
        ladders: vec![squares(&[10_000, 100_000, 1_000_000, 10_000_000])],
        keys: |size| datasets::keys_of_trades(size.left),
        brute_force: false,
        one_inequality: false,
    }
}
