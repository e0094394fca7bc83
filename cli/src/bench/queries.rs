//! The 22 queries of TPC-H.

/// Query `n` at place `n - 1`, as the tests run it.
pub(super) const TPCH: [&str; 22] = [
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
