//! The queries that all engines run.

/// TPC-H, in order.
pub(crate) const TPCH: [&str; 22] = [
    include_str!("../../../tests/it/tpch/plain/q01.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q02.sql"),
    include_str!("../../../tests/it/tpch/plain/q03.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q04.sql"),
    include_str!("../../../tests/it/tpch/plain/q05.sql"),
    include_str!("../../../tests/it/tpch/plain/q06.sql"),
    include_str!("../../../tests/it/tpch/plain/q07.sql"),
    include_str!("../../../tests/it/tpch/plain/q08.sql"),
    include_str!("../../../tests/it/tpch/plain/q09.sql"),
    include_str!("../../../tests/it/tpch/plain/q10.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q11.sql"),
    include_str!("../../../tests/it/tpch/plain/q12.sql"),
    include_str!("../../../tests/it/tpch/plain/q13.sql"),
    include_str!("../../../tests/it/tpch/plain/q14.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q15.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q16.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q17.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q18.sql"),
    include_str!("../../../tests/it/tpch/plain/q19.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q20.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q21.sql"),
    include_str!("../../../tests/it/tpch/subqueries/q22.sql"),
];

/// Theta, band, interval and set joins of all types, as rows and aggregated.
pub(crate) const JOINS: [&str; 40] = [
    // Inequalities.
    "SELECT p.id, s.id AS j FROM points p JOIN spans s ON p.at < s.start AND p.id > s.stop",
    "SELECT p.k, count(*), sum(s.id) FROM points p JOIN spans s ON p.at < s.start GROUP BY p.k",
    // Bands.
    "SELECT a.id, b.id AS j FROM points a JOIN points b ON abs(a.at - b.at) <= 3",
    "SELECT count(*), sum(a.w), max(b.w) FROM points a JOIN points b ON b.at BETWEEN a.at - 5 AND a.at + 5",
    // Intervals.
    "SELECT a.id, b.id AS j FROM spans a JOIN spans b ON a.start <= b.stop AND b.start <= a.stop",
    "SELECT a.id, count(*) FROM spans a JOIN spans b ON a.start <= b.stop AND b.start <= a.stop GROUP BY a.id",
    "SELECT p.id, s.id AS j FROM points p JOIN spans s ON p.k = s.k AND p.at BETWEEN s.start AND s.stop",
    // Outer, semi and anti joins, of either side.
    "SELECT p.id, s.id AS j FROM points p LEFT JOIN spans s ON p.at BETWEEN s.start AND s.stop",
    "SELECT p.id, s.id AS j FROM spans s LEFT JOIN points p ON p.at BETWEEN s.start AND s.stop",
    "SELECT p.id, s.id AS j FROM points p RIGHT JOIN spans s ON p.at BETWEEN s.start AND s.stop",
    "SELECT p.id, s.id AS j FROM points p FULL JOIN spans s ON p.at BETWEEN s.start AND s.stop",
    "SELECT p.id FROM points p WHERE EXISTS (SELECT 1 FROM spans s WHERE p.at BETWEEN s.start AND s.stop)",
    "SELECT p.id FROM points p WHERE NOT EXISTS (SELECT 1 FROM spans s WHERE p.at BETWEEN s.start AND s.stop)",
    "SELECT s.id FROM spans s WHERE NOT EXISTS (SELECT 1 FROM points p WHERE p.at BETWEEN s.start AND s.stop)",
    // Sets.
    "SELECT a.id, b.id AS j FROM tags a JOIN tags b ON array_has_all(a.t, b.t)",
    "SELECT a.id, b.id AS j, array_overlap(a.t, b.t) AS n FROM tags a JOIN tags b ON array_overlap(a.t, b.t) >= 3",
    "SELECT count(*), max(array_jaccard(a.t, b.t)) FROM tags a JOIN tags b ON array_jaccard(a.t, b.t) >= 0.6 AND a.id < b.id",
    // Below the join what must see all rows of a file, or all with equal keys.
    "SELECT count(*), sum(s.most) FROM points p JOIN (SELECT k, max(stop) AS most FROM spans GROUP BY k) s ON p.at > s.most - 9000",
    "SELECT p.id, p.n FROM (SELECT id, at, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM points) p JOIN (SELECT min(start) + 90 AS least FROM spans) s ON p.at < s.least",
    "SELECT count(*), sum(a.w), sum(b.id) FROM (SELECT p.at, p.w FROM points p JOIN spans s ON p.id = s.id) a JOIN points b ON a.at > b.at",
    // The preserved side has fewer rows than the other one.
    "SELECT count(*), sum(s.k), sum(p.id) FROM (SELECT max(k) AS k FROM spans) s LEFT JOIN points p ON s.k < p.at AND s.k % 13 = 1",
    "SELECT count(*), sum(s.id) FROM (SELECT id FROM spans WHERE id < 90) s WHERE NOT EXISTS (SELECT 1 FROM points p WHERE p.at BETWEEN s.id - 2 AND s.id + 2)",
    // Limits below a join, on either side.
    "SELECT count(*) FROM (SELECT 1 FROM points LIMIT 100) p CROSS JOIN spans s",
    "SELECT count(*) FROM spans s CROSS JOIN (SELECT 1 FROM points LIMIT 100) p",
    "SELECT count(*) FROM (SELECT 1 FROM points WHERE id > 70 LIMIT 90) p CROSS JOIN (SELECT 1 FROM points WHERE w > 3 LIMIT 200) s",
    "SELECT count(DISTINCT s.id) FROM (SELECT id FROM spans LIMIT 10) s JOIN points p ON p.id > s.id - 9000",
    "SELECT count(*), count(DISTINCT s.id) FROM points p LEFT JOIN (SELECT id FROM spans LIMIT 10) s ON p.id > s.id - 9000",
    "SELECT count(*), count(DISTINCT s.id) FROM points p JOIN (SELECT id FROM spans LIMIT 10) s ON p.id > s.id - 9000",
    "SELECT count(DISTINCT s.id) FROM (SELECT id FROM spans OFFSET 4990) s JOIN points p ON p.id > s.id - 9000",
    "SELECT count(DISTINCT s.id * 10000 + s.n) FROM (SELECT id, row_number() OVER () AS n FROM spans) s JOIN points p ON p.id > s.id - 9000 AND p.id < 900",
    "SELECT count(DISTINCT s.id) FROM (SELECT id FROM spans LIMIT 10) s JOIN points p ON p.id % 1 = s.id % 1",
    "SELECT count(DISTINCT s.id) FROM points p JOIN (SELECT id FROM spans LIMIT 10) s ON p.id % 1 = s.id % 1",
    "SELECT count(*), count(DISTINCT s.id) FROM points p FULL JOIN (SELECT id FROM spans ORDER BY id LIMIT 50) s ON p.id = s.id AND p.at < s.id * 9",
    // Unions below a join, of inputs with one partition and with several.
    "SELECT count(*), sum(u.k) FROM points p JOIN (SELECT k FROM spans UNION ALL SELECT max(id) FROM points) u ON p.id = u.k",
    "SELECT count(*), sum(u.k) FROM points p JOIN (SELECT k FROM spans UNION ALL SELECT max(id) FROM points) u ON p.at < u.k",
    "SELECT count(*), sum(p.id), sum(u.id) FROM points p RIGHT JOIN (SELECT id FROM spans UNION ALL SELECT id FROM (SELECT id FROM points ORDER BY id LIMIT 7) f) u ON p.id = u.id",
    "SELECT count(*), sum(u.id) FROM (SELECT id FROM spans UNION ALL (SELECT id FROM points ORDER BY id LIMIT 7)) u JOIN points p ON u.id BETWEEN p.at - 1 AND p.at + 1",
    "SELECT count(*), sum(u.id) FROM points p LEFT JOIN (SELECT s.id FROM spans s JOIN points p ON s.id = p.id UNION ALL SELECT count(*) FROM spans) u ON p.at = u.id",
    // A column that is never NULL, but for rows without a match.
    "SELECT p.k, count(*), sum(s.n) FROM points p LEFT JOIN (SELECT k, count(*) AS n FROM spans GROUP BY k) s ON p.k = s.k AND p.at < s.n * 90 GROUP BY p.k",
    "SELECT count(*), sum(a.w) FROM points a JOIN (SELECT avg(w) AS mean FROM points) m ON a.w > m.mean",
];

/// Whose rows come in an order, or are as many as a limit says.
pub(crate) const ORDERED: [&str; 19] = [
    "SELECT p.id, s.id AS j FROM spans s LEFT JOIN points p ON p.id = s.id ORDER BY s.id DESC",
    "SELECT p.id, s.id AS j FROM spans s FULL JOIN points p ON p.id = s.id AND p.at < s.start ORDER BY s.id, p.id",
    "SELECT p.id, s.id AS j FROM points p LEFT JOIN spans s ON p.at BETWEEN s.start AND s.stop ORDER BY 1, 2 LIMIT 500",
    "SELECT i, row_number() OVER (ORDER BY id DESC) AS n FROM (SELECT * FROM (SELECT id AS i FROM spans WHERE id % 2 >= 0) a JOIN (SELECT id, t FROM tags) b ON a.i = b.id) ORDER BY 1",
    "SELECT a.i FROM (SELECT id AS i FROM spans WHERE id % 2 >= 0) a JOIN (SELECT id FROM tags) b ON a.i = b.id ORDER BY b.id DESC",
    "SELECT 1 FROM (SELECT n_name FROM nation FULL JOIN region ON n_regionkey = r_regionkey LIMIT 5)",
    "SELECT 1 FROM (SELECT n_name, row_number() OVER (PARTITION BY n_regionkey ORDER BY n_name) AS r FROM nation) WHERE r % 2 = 1 LIMIT 3",
    "SELECT * FROM (VALUES (1), (2), (3)) t(x) ORDER BY x LIMIT 2",
    "SELECT count(*), sum(x) FROM (SELECT id AS x FROM spans UNION ALL SELECT n_nationkey FROM nation LEFT JOIN points ON n_nationkey > at) u",
    "SELECT count(*) FROM supplier s JOIN (SELECT n_nationkey AS k, row_number() OVER (PARTITION BY n_regionkey ORDER BY n_nationkey) AS r FROM nation) n ON s.s_nationkey = n.k",
    "SELECT count(DISTINCT n.u) FROM (SELECT uuid() AS u FROM nation) n CROSS JOIN points",
    "SELECT count(DISTINCT s.f) FROM (SELECT first_value(id) AS f FROM spans) s CROSS JOIN points",
    "SELECT count(*) FROM points t JOIN spans u ON t.id = u.id JOIN spans y ON t.k = y.id WHERE t.id = t.k",
    "SELECT count(*), sum(id) FROM (SELECT id FROM spans ORDER BY id OFFSET 4900) s JOIN points p USING (id)",
    "SELECT count(*), sum(id) FROM (SELECT id FROM spans ORDER BY k, id DESC LIMIT 40 OFFSET 4900) s LEFT JOIN points p USING (id)",
    "SELECT k, count(*), sum(id) FROM (SELECT k, id FROM spans ORDER BY id LIMIT 3000 OFFSET 1500) s GROUP BY k ORDER BY k",
    "SELECT count(*), sum(a.x), sum(s.k) FROM (SELECT id % 1000 AS x, at FROM points ORDER BY 1, 2 OFFSET 4000) a LEFT JOIN (SELECT k, id FROM spans ORDER BY id LIMIT 90 OFFSET 250) s ON a.x = s.id",
    "SELECT count(*), sum(s.id) FROM (SELECT id FROM (SELECT id, k FROM spans ORDER BY id DESC LIMIT 300) t WHERE k % 2 = 1 ORDER BY id DESC LIMIT 7) s FULL JOIN points p ON p.id = s.id",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 9) SELECT * FROM t ORDER BY n",
];

/// Slow enough to be interrupted: most of its pairs match.
pub(crate) const SLOW: &str = "SELECT count(*), sum(a.w * b.w), sum(ln(a.w + b.id + c.id)) FROM points a, points b, points c WHERE a.w * b.w + c.w > 1";
