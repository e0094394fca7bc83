//! Functions by all of their names.

use std::collections::BTreeMap;

use crate::aggregate::check::{check, tunings};
use crate::support::session::session;
use crate::support::tables::{mixed_table, register};

/// Those that are offloaded, by the names that DataFusion gives them.
const FUNCTIONS: [&str; 18] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "first_value",
    "last_value",
    "max",
    "median",
    "min",
    "percentile_cont",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

#[tokio::test]
async fn all_names() {
    let ctx = session();
    register(&ctx, "r", &mixed_table(90, 0.1, 5));
    let state = ctx.state();
    let functions = state.aggregate_functions().iter();
    let functions = functions.map(|(name, function)| (name.clone(), function.name().to_string()));
    let mut other_names = vec![];
    let mut found = vec![];
    for (n, (name, function)) in functions.collect::<BTreeMap<_, _>>().iter().enumerate() {
        if !FUNCTIONS.contains(&function.as_str()) {
            continue;
        }
        let call = match function.as_str() {
            "bool_and" | "bool_or" => format!("{name}(a > 3)"),
            "first_value" | "last_value" => format!("{name}(b ORDER BY b, id)"),
            "percentile_cont" => format!("{name}(0.3) WITHIN GROUP (ORDER BY c)"),
            _ => format!("{name}(a)"),
        };
        let sql = format!("SELECT g, {call} AS x FROM r GROUP BY g");
        check(&ctx, &sql, tunings(n, 1)).await;
        if name == function {
            found.push(name.clone());
        } else {
            other_names.push(name.clone());
        }
    }
    assert_eq!(found, FUNCTIONS);
    // Such as `mean`.
    assert!(other_names.len() > 5, "{other_names:?}");
}
