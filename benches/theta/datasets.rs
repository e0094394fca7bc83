//! Seeded tables of the theta cases. `benches/rivals/theta.py --generate` generates tables by the same rules, but not
//! the same rows.

use arrow::array::StringArray;
use rand::Rng;
use rand::seq::SliceRandom;

use super::support::table::{Table, Values, seeded};

/// Distinct equality keys of the keyed overlap join.
pub const KEYS: usize = 100;

/// Contigs of [`genome`].
pub const CONTIGS: usize = 24;

/// Rows of each key of [`trades`].
const ROWS_OF_KEY: usize = 1_000;

/// `r` and `s` of [T] listing 1: `id`, `a`, `x`, 32-bit integers, so that `r.a > s.a` holds for a share of
/// `selectivity` of all pairs.
/// Both `a` are uniform over a million values, with ties; those of `r` are shifted by the share d of the domain for
/// which P(U + d > V) is the selectivity, U and V being uniform over [0, 1).
/// P(U + d > V) is the selectivity, U and V being uniform over [0, 1).
pub fn relations(left: usize, right: usize, selectivity: f64) -> Vec<Table> {
    const DOMAIN: i32 = 1_000_000;
    let shift = if selectivity >= 0.5 {
        1.0 - (2.0 * (1.0 - selectivity)).sqrt()
    } else {
        (2.0 * selectivity).sqrt() - 1.0
    };
    let shift = (shift * f64::from(DOMAIN)) as i32;

    let relation = |name, rows: usize, shift: i32, seed| {
        let mut random = seeded(seed);
        let a = (0..rows)
            .map(|_| random.random_range(shift..shift + DOMAIN))
            .collect();
        let x = (0..rows).map(|_| random.random_range(0..100)).collect();
        Table::new(name)
            .with("id", Values::Int32((0..rows as i32).collect()))
            .with("a", Values::Int32(a))
            .with("x", Values::Int32(x))
    };
    vec![relation("r", left, shift, 1), relation("s", right, 0, 2)]
}

/// `r` and `s`: `a`, `b`, uniform over the 32-bit integers and independent of each other, so that a quarter of all
/// pairs have `r.a < s.a AND r.b > s.b`, and the extremes of a block decide nothing in either order.
pub fn independent(rows: usize) -> Vec<Table> {
    let relation = |name, seed| {
        let mut random = seeded(seed);
        let mut column = || Values::Int32((0..rows).map(|_| random.random()).collect());
        Table::new(name).with("a", column()).with("b", column())
    };
    vec![relation("r", 8), relation("s", 9)]
}

/// `r` and `s` of [`independent`], with `id` and `x`.
pub fn weighted(rows: usize) -> Vec<Table> {
    let mut random = seeded(12);
    let relations = independent(rows).into_iter();
    let relations = relations.map(|relation| {
        let x = (0..rows).map(|_| random.random_range(0..100)).collect();
        relation
            .with("id", Values::Int32((0..rows as i32).collect()))
            .with("x", Values::Int32(x))
    });
    relations.collect()
}

/// `r` with `a`, `c` and `s` with `b`, `d`, 64-bit integers: `r.a * s.b + r.c > s.d` holds for about half of all pairs.
pub fn products(rows: usize) -> Vec<Table> {
    let relation = |name, names: [&'static str; 2], seed| {
        let mut random = seeded(seed);
        let mut column = |end: i64| {
            let values = (0..rows).map(|_| random.random_range(-end..end));
            Values::Int64(values.collect())
        };
        Table::new(name)
            .with(names[0], column(1_000))
            .with(names[1], column(1_000_000))
    };
    vec![relation("r", ["a", "c"], 10), relation("s", ["b", "d"], 11)]
}

/// `employees`: `id`, `salary`, `tax`. Tax follows salary, so that hardly anyone earns less and pays more.
///
/// One employee in a thousand pays the tax of a salary some 5 positions (1 to 9) higher: 5 matches each, thus about
/// 5,000 matches for a million employees.
pub fn employees(rows: usize) -> Vec<Table> {
    const RANGE: i64 = 100_000_000;
    let mut random = seeded(3);
    let place = RANGE / rows.max(1) as i64;
    let mut salary = Vec::with_capacity(rows);
    let mut tax = Vec::with_capacity(rows);
    for employee in 0..rows {
        let earned: i64 = random.random_range(10_000..10_000 + RANGE);
        let taxed = if employee % 1_000 == 0 {
            earned + place * random.random_range(1..10_i64)
        } else {
            earned
        };
        salary.push(earned as i32);
        tax.push((taxed * 3 / 10) as i32);
    }
    vec![
        Table::new("employees")
            .with("id", Values::Int32((0..rows as i32).collect()))
            .with("salary", Values::Int32(salary))
            .with("tax", Values::Int32(tax)),
    ]
}

/// `readings` and `events`: `id`, `t`, with about ten events within 50 of a reading, at any size.
pub fn band(rows: usize) -> Vec<Table> {
    let moments = |name, seed| {
        let mut random = seeded(seed);
        let t = (0..rows)
            .map(|_| random.random_range(0..10 * rows as i64))
            .collect();
        Table::new(name)
            .with("id", Values::Int32((0..rows as i32).collect()))
            .with("t", Values::Int64(t))
    };
    vec![moments("readings", 4), moments("events", 5)]
}

/// `a` and `b`: `id`, `k`, `lo`, `hi`, closed intervals of length 0 to 100. Each overlaps about ten intervals of the
/// other table with the same `k`, at any size.
pub fn intervals(rows: usize, keys: usize) -> Vec<Table> {
    let end = 10 * (rows / keys).max(1) as i64;
    let bookings = |name, seed| {
        let mut random = seeded(seed);
        let k = (0..rows)
            .map(|_| random.random_range(0..keys as i32))
            .collect();
        let lo: Vec<i64> = (0..rows).map(|_| random.random_range(0..end)).collect();
        let hi = lo
            .iter()
            .map(|lo| random.random_range(*lo..=lo + 100))
            .collect();
        Table::new(name)
            .with("id", Values::Int32((0..rows as i32).collect()))
            .with("k", Values::Int32(k))
            .with("lo", Values::Int64(lo))
            .with("hi", Values::Int64(hi))
    };
    vec![bookings("a", 6), bookings("b", 7)]
}

/// `a` and `b`: `id`, `chrom` (text), `lo`, `hi`, closed intervals with begins uniform over a genome and exponential
/// lengths, 30,000 on average in `a` and 600 in `b`, which has a `score`, too. The genome grows with `b`, so that each
/// interval of `a` overlaps about a hundred of `b` at any size, and has 3.1 Gbase for ten million rows of `b`.
pub fn genome(left: usize, right: usize) -> Vec<Table> {
    const BASES_OF_ROW: usize = 310;
    let contig_length = (BASES_OF_ROW * right / CONTIGS).max(1) as i64;
    let names: Vec<String> = (1..=CONTIGS).map(|contig| format!("chr{contig}")).collect();
    let intervals = |name, rows: usize, mean: f64, seed| {
        let mut random = seeded(seed);
        let chrom = (0..rows).map(|_| &names[random.random_range(0..CONTIGS)]);
        let chrom = StringArray::from_iter_values(chrom);
        let lo: Vec<i64> = (0..rows)
            .map(|_| random.random_range(0..contig_length))
            .collect();
        let hi = lo
            .iter()
            .map(|lo| lo + (-mean * (1.0 - random.random::<f64>()).ln()) as i64)
            .collect();
        Table::new(name)
            .with("id", Values::Int32((0..rows as i32).collect()))
            .with("chrom", Values::Text(chrom))
            .with("lo", Values::Int64(lo))
            .with("hi", Values::Int64(hi))
    };
    let mut random = seeded(15);
    let score = (0..right).map(|_| random.random_range(0..1_000)).collect();
    vec![
        intervals("a", left, 30_000.0, 13),
        intervals("b", right, 600.0, 14).with("score", Values::Int64(score)),
    ]
}

/// `trades`: `id`, `k`, `t`, and `quotes`: `k`, `t`, `price`, both in random order, with about a thousand rows of each
/// key. No two quotes have one `t`, so that a trade has one last quote.
pub fn trades(left: usize, right: usize) -> Vec<Table> {
    let keys = keys_of_trades(left) as i32;
    let mut random = seeded(16);
    let k = (0..left).map(|_| random.random_range(0..keys)).collect();
    let t = (0..left)
        .map(|_| random.random_range(0..10 * right as i64))
        .collect();
    let trades = Table::new("trades")
        .with("id", Values::Int32((0..left as i32).collect()))
        .with("k", Values::Int32(k))
        .with("t", Values::Int64(t));

    let mut random = seeded(17);
    let k = (0..right).map(|_| random.random_range(0..keys)).collect();
    let mut t: Vec<i64> = (0..right as i64)
        .map(|place| 10 * place + random.random_range(0..10_i64))
        .collect();
    t.shuffle(&mut random);
    let price = (0..right)
        .map(|_| random.random_range(1..100_000))
        .collect();
    let quotes = Table::new("quotes")
        .with("k", Values::Int32(k))
        .with("t", Values::Int64(t))
        .with("price", Values::Int64(price));
    vec![trades, quotes]
}

/// The number of keys of [`trades`] with that many rows.
pub fn keys_of_trades(rows: usize) -> usize {
    (rows / ROWS_OF_KEY).max(1)
}
