-- Queries that once failed while they were planned, or had other rows than in DataFusion; and their kin. `early.rs` runs each of them under
-- all options. A volatile function is read so that the result does not depend on its values.

--## subquery in a sum of padded rows
SELECT l.a, sum(r.b + (SELECT max(column1) FROM (VALUES (10), (20)) AS m)) AS s FROM (VALUES (1), (2), (3)) AS l(a)
LEFT JOIN (VALUES (1, 5), (2, 6)) AS r(a, b) ON l.a > r.a GROUP BY l.a

--## subquery in a choice of padded rows
SELECT count(CASE WHEN r.b > (SELECT min(column1) FROM (VALUES (5), (20)) AS m) THEN r.b END) AS n FROM (VALUES (1),
(2), (3)) AS l(a) LEFT JOIN (VALUES (1, 5), (2, 6)) AS r(a, b) ON l.a > r.a

--## subquery in a minimum, right join
SELECT r.a, min(l.b - (SELECT max(column1) FROM (VALUES (10), (20)) AS m)) AS s FROM (VALUES (1, 5), (2, 6)) AS l(a,
b) RIGHT JOIN (VALUES (1), (2), (3)) AS r(a) ON l.a < r.a GROUP BY r.a

--## subquery in a group key, hash join
SELECT r.b + (SELECT max(column1) FROM (VALUES (10), (20)) AS m) AS g, count(*) AS n FROM (VALUES (1), (2), (3)) AS
l(a) LEFT JOIN (VALUES (1, 5), (2, 6)) AS r(a, b) ON l.a = r.a GROUP BY 1

--## subquery in a sum of many padded rows
SELECT count(*) AS n, sum(s) AS s FROM (SELECT l.value, sum(r.value + (SELECT max(column1) FROM (VALUES (10), (20)) AS
m)) AS s FROM generate_series(1, 400) AS l LEFT JOIN generate_series(1, 300) AS r ON l.value > r.value GROUP BY
l.value) AS x

--## subquery in a value of sets, left join
WITH a AS (SELECT column1 AS id, make_array(column1, column1 + 1, column1 + 2) AS t FROM (VALUES (1), (2), (3), (4)))
SELECT a.id, b.id AS other, array_overlap(a.t, CASE WHEN b.id < (SELECT max(column1) FROM (VALUES (3), (4)) AS m) THEN
b.t END) AS v FROM a LEFT JOIN a AS b ON a.id < b.id

--## volatile column under two names, as-of join
WITH t AS (SELECT value AS id, value * 10 AS ts FROM generate_series(1, 100)), q AS (SELECT value AS ts FROM
generate_series(1, 1000)), o AS (SELECT ts, rn, x, x AS y FROM (SELECT ts, row_number() OVER () AS rn, random() AS x
FROM t) AS i) SELECT count(*) AS n, sum(CASE WHEN x = y THEN 1 ELSE 0 END) AS same FROM (SELECT o.x, o.y, q.ts,
row_number() OVER (PARTITION BY o.rn ORDER BY q.ts DESC) AS k FROM o JOIN q ON q.ts <= o.ts) AS p WHERE k = 1

--## volatile column under two names, left join
WITH t AS (SELECT value AS id, value * 10 AS ts FROM generate_series(1, 100)), q AS (SELECT value AS ts FROM
generate_series(1, 1000)), o AS (SELECT ts, rn, x, x AS y FROM (SELECT ts, row_number() OVER () AS rn, random() AS x
FROM t) AS i) SELECT count(*) AS n, sum(CASE WHEN x = y THEN 1 ELSE 0 END) AS same FROM (SELECT o.x, o.y, q.ts,
row_number() OVER (PARTITION BY o.rn ORDER BY q.ts) AS k FROM o LEFT JOIN q ON q.ts >= o.ts) AS p WHERE k <= 1

--## volatile value of sets under two names
WITH a AS (SELECT column1 AS id, make_array(column1, column1 + 1, column1 + 2) AS t FROM (VALUES (1), (2), (3), (4),
(5), (6), (7), (8), (9), (10))) SELECT count(*) AS n, sum(CASE WHEN v = w THEN 1 ELSE 0 END) AS same, sum(d) AS s FROM
(SELECT v, v AS w, array_dice(at, bt) AS d FROM (SELECT array_overlap(a.t, make_array(CAST(random() * 10 AS BIGINT)))
AS v, a.t AS at, b.t AS bt FROM a JOIN a AS b ON array_jaccard(a.t, b.t) >= 0.2) AS x) AS y

--## disjunct that overflows on decided pairs
SELECT count(*) AS n FROM (VALUES (CAST(0 AS BIGINT), 1)) AS l(x, k) JOIN (VALUES (CAST(-9223372036854775807 AS
BIGINT) - 1, 1)) AS r(y, k) ON l.k = r.k OR abs(l.x - r.y) <= 5

--## overlaps with NULL-safe keys
WITH l AS (SELECT column1 AS k, column2 AS lo, column3 AS hi FROM (VALUES (1, 1, 5), (NULL, 2, 6), (1, 4, 4), (NULL,
0, 9), (2, 3, 8))), r AS (SELECT column1 AS k, column2 AS lo, column3 AS hi FROM (VALUES (NULL, 1, 3), (1, 5, 7), (2,
8, 9), (NULL, 5, 5), (1, 0, 2))) SELECT l.k, l.lo, count(*) AS n, count(r.lo) AS c, sum(r.lo) AS s FROM l LEFT JOIN r
ON (l.k IS NOT DISTINCT FROM r.k) AND l.lo < r.hi AND r.lo < l.hi GROUP BY l.k, l.lo

--## recursion with a join
WITH RECURSIVE e AS (SELECT column1 AS a, column2 AS b FROM (VALUES (1, 2), (2, 3), (3, 4), (4, 5), (2, 5))), p AS
(SELECT a, b, 1 AS n FROM e WHERE a = 1 UNION ALL SELECT p.a, e.b, p.n + 1 FROM p JOIN e ON p.b = e.a AND p.n < e.b
WHERE p.n < 6) SELECT a, b, n, count(*) AS c FROM p GROUP BY a, b, n

--## grouping sets given twice
SELECT l.a, count(*) AS n, grouping(l.a) AS g FROM (VALUES (1), (2)) AS l(a) JOIN (VALUES (5)) AS r(b) ON l.a < r.b
GROUP BY GROUPING SETS ((), (), (l.a), (l.a))

--## subquery in a sort key
SELECT l.a, r.b FROM (VALUES (3), (1), (2)) AS l(a) JOIN (VALUES (5), (2)) AS r(b) ON l.a < r.b ORDER BY abs(l.a -
(SELECT max(column1) FROM (VALUES (2)) AS m)), l.a, r.b LIMIT 3

--## subquery in the condition of a set join
WITH a AS (SELECT column1 AS id, make_array(column1, column1 + 1, column1 + 2) AS t FROM (VALUES (1), (2), (3), (4)))
SELECT a.id, b.id AS other, array_jaccard(a.t, array_append(b.t, (SELECT max(column1) FROM (VALUES (5)) AS m))) AS v
FROM a LEFT JOIN a AS b ON array_jaccard(a.t, array_append(b.t, (SELECT max(column1) FROM (VALUES (5)) AS m))) >= 0.2

--## subquery in a join key and in a filter
SELECT count(*) AS n FROM (VALUES (1), (2), (3)) AS l(a) JOIN (VALUES (2), (3), (4)) AS r(b) ON l.a + (SELECT
min(column1) FROM (VALUES (1)) AS m) = r.b AND l.a * r.b > (SELECT min(column1) FROM (VALUES (3)) AS m)

--## lists that are made in conditions
WITH a AS (SELECT column1 AS id, column2 AS s FROM (VALUES (1, 'a,b,c'), (2, 'b,c'), (3, NULL), (4, ''))) SELECT a.id,
b.id AS other FROM a JOIN a AS b ON array_has_any(array_sort(array_distinct(string_to_array(a.s, ','))),
array_concat(string_to_array(b.s, ','), make_array('z'))) AND a.id <> b.id

--## nested group keys
SELECT named_struct('x', l.a % 2, 'y', make_array(l.a % 2)) AS k, array_sort(make_array(l.a % 2, 1)) AS q, count(*) AS
n FROM (VALUES (1), (2), (3)) AS l(a) GROUP BY named_struct('x', l.a % 2, 'y', make_array(l.a % 2)),
array_sort(make_array(l.a % 2, 1))

--## keys of no bytes
SELECT l.k, count(*) AS n FROM (SELECT arrow_cast(arrow_cast('', 'Binary'), 'FixedSizeBinary(0)') AS k, column1 AS a
FROM (VALUES (1), (2))) AS l JOIN (SELECT arrow_cast(arrow_cast('', 'Binary'), 'FixedSizeBinary(0)') AS k, column1 AS
a FROM (VALUES (2), (3))) AS r ON l.k = r.k AND l.a < r.a GROUP BY l.k

--## subquery below a cast and a function, full join
SELECT l.a, count(coalesce(r.b, CAST((SELECT max(column1) FROM (VALUES (7)) AS m) AS BIGINT))) AS n FROM (VALUES (1),
(2), (3)) AS l(a) FULL JOIN (VALUES (1, 5), (2, 6)) AS r(a, b) ON l.a < r.a GROUP BY l.a

--## subquery without rows in a filter clause
SELECT l.a, sum(r.b) FILTER (WHERE r.b > (SELECT max(column1) FROM (VALUES (7)) AS m WHERE false)) AS s, count(*) AS n
FROM (VALUES (1), (2), (3)) AS l(a) LEFT JOIN (VALUES (1, 5), (2, 6)) AS r(a, b) ON l.a > r.a GROUP BY l.a

--## subquery in a band's width
SELECT count(*) AS n FROM (VALUES (1), (5), (9)) AS l(a) JOIN (VALUES (2), (7), (12)) AS r(b) ON abs(l.a - r.b) <=
(SELECT max(column1) FROM (VALUES (2)) AS m)

--## subquery in a threshold of sets
WITH a AS (SELECT column1 AS id, make_array(column1, column1 + 1, column1 + 2) AS t FROM (VALUES (1), (2), (3), (4)))
SELECT a.id, b.id AS other FROM a JOIN a AS b ON array_jaccard(a.t, b.t) >= (SELECT CAST(min(column1) AS DOUBLE) / 4
FROM (VALUES (1)) AS m)

--## volatile column in a key of the order
SELECT count(*) AS n FROM (SELECT t.id, row_number() OVER (PARTITION BY t.id ORDER BY q.r) AS k FROM (SELECT value AS
id FROM generate_series(1, 20)) AS t JOIN (SELECT value AS id, random() AS r FROM generate_series(1, 30)) AS q ON q.id
<= t.id) AS p WHERE k <= 2

--## volatile column in both sides of a join
SELECT count(*) AS n, sum(CASE WHEN a.x = a.y THEN 1 ELSE 0 END) AS same FROM (SELECT id, x, x AS y FROM (SELECT value
AS id, random() AS x FROM generate_series(1, 50)) AS i) AS a JOIN generate_series(1, 50) AS b ON a.id < b.value

--## volatile column under an aggregate, twice
SELECT count(*) AS n, sum(CASE WHEN lo = hi THEN 1 ELSE 0 END) AS same FROM (SELECT a.id, min(a.x) AS lo, max(a.x) AS
hi FROM (SELECT value AS id, random() AS x FROM generate_series(1, 50)) AS a JOIN generate_series(1, 50) AS b ON a.id
< b.value GROUP BY a.id) AS g
