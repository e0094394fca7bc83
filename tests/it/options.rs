//! The `bowtie.*` options, by SQL: their values, defaults and refusals.

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::{
    BowtieConfigExt, BowtieContextExt, BowtieOptions, BowtieSessionExt, BroadcastRows, Bytes,
    ChunkRows, DeviceChoice, EquiJoinStrategy, GroupStrategy, MaterializationChoice, MinSpeedup,
    Offload, ThetaStrategy,
};

use crate::support::snapshot::{answer, empty_session, nodes, refusal, run, session};

const THETA: &str = "SELECT r.a, s.a FROM r JOIN s ON r.a > s.a";

fn options(context: &SessionContext) -> BowtieOptions {
    let state = context.state();
    let extensions = &state.config_options().extensions;
    extensions.get::<BowtieOptions>().cloned().unwrap()
}

/// The value of an option as it is displayed.
fn shown(context: &SessionContext, option: &str) -> String {
    let options = options(context);
    match option {
        "offload" => options.offload.to_string(),
        "device" => options.device.to_string(),
        "device_memory" => options.device_memory.to_string(),
        "chunk_rows" => options.chunk_rows.to_string(),
        "theta_strategy" => options.theta_strategy.to_string(),
        "equi_join_strategy" | "join_strategy" => options.equi_join_strategy.to_string(),
        "materialization" => options.materialization.to_string(),
        "strict" => options.strict.to_string(),
        "min_speedup" => options.min_speedup.to_string(),
        "group_strategy" => options.group_strategy.to_string(),
        "broadcast_rows" => options.broadcast_rows.to_string(),
        other => panic!("no option {other}"),
    }
}

#[test]
fn defaults() {
    let options = options(&empty_session());
    assert_eq!(options.offload, Offload::Auto);
    assert_eq!(options.device, DeviceChoice::Auto);
    assert_eq!(options.device_memory, Bytes::AUTO);
    assert_eq!(options.chunk_rows, ChunkRows::AUTO);
    assert!(!options.strict);
    assert_eq!(options.min_speedup, MinSpeedup::DEFAULT);
    assert_eq!(options.theta_strategy, ThetaStrategy::AUTO);
    assert_eq!(options.group_strategy, GroupStrategy::AUTO);
    assert_eq!(options.broadcast_rows, BroadcastRows::DEFAULT);
}

/// Option, value, and how it is displayed.
const GOOD: [(&str, &str, &str); 49] = [
    ("broadcast_rows", " 0 ", "0"),
    ("broadcast_rows", "10000000000", "10000000000"),
    ("offload", "off", "off"),
    ("offload", "auto", "auto"),
    ("offload", "force", "force"),
    ("offload", " FORCE ", "force"),
    ("device", "auto", "auto"),
    ("device", "host", "host"),
    ("device", "Host", "host"),
    ("device", "cuda", "cuda:0"),
    ("device", "cuda:3", "cuda:3"),
    ("device_memory", "auto", "auto"),
    ("device_memory", "AUTO", "auto"),
    ("device_memory", "1MB", "1MB"),
    ("device_memory", "512MB", "512MB"),
    ("device_memory", "512 mib", "512MB"),
    ("device_memory", "8GB", "8GB"),
    ("device_memory", "8G", "8GB"),
    ("device_memory", "1.5GiB", "1536MB"),
    ("device_memory", "2TB", "2TB"),
    ("device_memory", "1048577", "1048577"),
    ("device_memory", "2048KB", "2MB"),
    ("chunk_rows", "auto", "auto"),
    ("chunk_rows", "1", "1"),
    ("chunk_rows", " 1000 ", "1000"),
    ("chunk_rows", "1000000", "1000000"),
    ("theta_strategy", "auto", "auto"),
    ("theta_strategy", "range", "range"),
    ("theta_strategy", "dominance", "dominance"),
    ("theta_strategy", "tiles", "tiles"),
    ("theta_strategy", "Tiles", "tiles"),
    ("group_strategy", "auto", "auto"),
    ("group_strategy", "hash_shared", "hash_shared"),
    ("group_strategy", "hash_global", "hash_global"),
    ("group_strategy", "partition", "partition"),
    ("group_strategy", " SORT ", "sort"),
    ("group_strategy", "sort_dict", "sort_dict"),
    ("equi_join_strategy", "smj", "sort_merge"),
    // Former names.
    ("join_strategy", "hash", "hash"),
    ("materialization", "gftr", "early"),
    ("materialization", "gfur", "late"),
    ("materialization", "early", "early"),
    ("materialization", "late", "late"),
    ("strict", "true", "true"),
    ("strict", "false", "false"),
    ("min_speedup", "1", "1"),
    ("min_speedup", "2.5", "2.5"),
    ("min_speedup", " 100 ", "100"),
    ("device", "cpu", "host"),
];

#[tokio::test]
async fn options_are_reset_to_their_defaults() {
    let default = empty_session();
    for (option, value, expected) in GOOD {
        let context = empty_session();
        let set = format!("SET bowtie.{option} = '{value}'");
        context.sql(&set).await.unwrap();
        assert_eq!(shown(&context, option), expected);
        context.reset_bowtie_option(option).unwrap();
        assert_eq!(shown(&context, option), shown(&default, option), "{set}");
    }
    let error = default.reset_bowtie_option("ofload").unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("there is no option bowtie.ofload"),
        "{error}"
    );
}

/// Also in the session of a coordinator, whose options workers get.
#[tokio::test]
async fn reset_statements_are_executed() {
    let coordinator = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie_coordinator()
        .unwrap()
        .build();
    for context in [empty_session(), SessionContext::new_with_state(coordinator)] {
        for statement in [
            "RESET bowtie.chunk_rows",
            "reset BOWTIE.Chunk_Rows; -- again;",
        ] {
            context.sql("SET bowtie.chunk_rows = 7").await.unwrap();
            let plan = context.state().create_logical_plan(statement).await;
            let done = context.execute_bowtie_reset(&plan.unwrap()).unwrap();
            let rows = done.expect(statement).collect().await.unwrap();
            assert!(rows.is_empty(), "{statement}");
            assert_eq!(shown(&context, "chunk_rows"), "auto", "{statement}");
        }
        for statement in [
            "SET bowtie.chunk_rows = 7",
            "SELECT 'RESET bowtie.chunk_rows'",
            "RESET datafusion.execution.batch_size",
            "RESET bowtie",
        ] {
            let plan = context.state().create_logical_plan(statement).await;
            let done = context.execute_bowtie_reset(&plan.unwrap()).unwrap();
            assert!(done.is_none(), "{statement}");
        }
        let state = context.state();
        let plan = state.create_logical_plan("RESET bowtie.ofload").await;
        let error = context.execute_bowtie_reset(&plan.unwrap()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("there is no option bowtie.ofload"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn good_values_are_accepted() {
    for (option, value, expected) in GOOD {
        let context = empty_session();
        context
            .sql(&format!("SET bowtie.{option} = '{value}'"))
            .await
            .unwrap_or_else(|e| panic!("{option} = '{value}': {e}"));
        assert_eq!(shown(&context, option), expected, "{option} = '{value}'");
    }
}

/// Option, value, and the allowed values that the error names.
const BAD: [(&str, &str, &str); 32] = [
    ("broadcast_rows", "many", "use a number of rows from 0"),
    ("offload", "on", "use off, auto or force"),
    ("offload", "true", "use off, auto or force"),
    ("offload", "", "use off, auto or force"),
    (
        "device",
        "gpu",
        "use auto, host, cuda, or cuda:N with the GPU's number",
    ),
    ("device", "cuda:", "use auto, host, cuda, or cuda:N"),
    ("device", "cuda:x", "use auto, host, cuda, or cuda:N"),
    ("device", "cuda:-1", "use auto, host, cuda, or cuda:N"),
    ("device", "host:1", "use auto, host, cuda, or cuda:N"),
    (
        "device_memory",
        "",
        "use auto, or a size from 1MB to 1048576TB such as 512MB, 8GB or 1.5GiB",
    ),
    (
        "device_memory",
        "all",
        "use auto, or a size from 1MB to 1048576TB",
    ),
    (
        "device_memory",
        "0",
        "use auto, or a size from 1MB to 1048576TB",
    ),
    (
        "device_memory",
        "1023KB",
        "use auto, or a size from 1MB to 1048576TB",
    ),
    (
        "device_memory",
        "-8GB",
        "use auto, or a size from 1MB to 1048576TB",
    ),
    (
        "device_memory",
        "8PB",
        "use auto, or a size from 1MB to 1048576TB",
    ),
    (
        "device_memory",
        "1.2.3GB",
        "use auto, or a size from 1MB to 1048576TB",
    ),
    (
        "device_memory",
        "99999999TB",
        "use auto, or a size from 1MB to 1048576TB",
    ),
    ("chunk_rows", "0", "use auto, or a number of rows from 1 to"),
    (
        "chunk_rows",
        "-1",
        "use auto, or a number of rows from 1 to",
    ),
    (
        "chunk_rows",
        "1.5",
        "use auto, or a number of rows from 1 to",
    ),
    (
        "chunk_rows",
        "many",
        "use auto, or a number of rows from 1 to",
    ),
    (
        "chunk_rows",
        "4294967296",
        "use auto, or a number of rows from 1 to",
    ),
    (
        "chunk_rows",
        "99999999999999999999",
        "use auto, or a number of rows from 1 to",
    ),
    (
        "theta_strategy",
        "iejoin",
        "use auto, range, dominance or tiles",
    ),
    ("theta_strategy", "", "use auto, range, dominance or tiles"),
    (
        "theta_strategy",
        "range,tiles",
        "use auto, range, dominance or tiles",
    ),
    (
        "group_strategy",
        "hash",
        "use auto, hash_shared, hash_global, partition, sort, sort_dict or runs",
    ),
    ("strict", "yes", "use true or false"),
    ("materialization", "gf", "use auto, late or early"),
    ("min_speedup", "0.5", "use a number from 1 to 100"),
    ("min_speedup", "NaN", "use a number from 1 to 100"),
    (
        "equi_join_strategy",
        "loop",
        "use auto, direct, hash, partitioned_hash or sort_merge",
    ),
];

/// The error names the option, the value and the allowed values, and the option keeps its value.
#[tokio::test]
async fn bad_values_are_refused() {
    for (option, value, allowed) in BAD {
        let context = empty_session();
        let before = shown(&context, option);
        let message = refusal(&context, &format!("SET bowtie.{option} = '{value}'")).await;
        let expected = format!("bowtie.{option} cannot be '{value}': {allowed}");
        assert!(message.contains(&expected), "{message}\nlacks\n{expected}");
        assert_eq!(shown(&context, option), before, "{option} = '{value}'");
    }
}

#[tokio::test]
async fn an_unknown_option_is_refused() {
    let message = refusal(&empty_session(), "SET bowtie.ofload = 'off'").await;
    assert!(
        message.contains("there is no option bowtie.ofload: use one of bowtie.offload, "),
        "{message}"
    );
}

/// By name, with or without the prefix, and by builders.
#[test]
fn options_in_rust() {
    let built = BowtieOptions::default()
        .with_offload(Offload::Force)
        .with_device_memory(Bytes::at_most(8 << 30).unwrap())
        .with_chunk_rows(ChunkRows::at_most(1000).unwrap())
        .with_equi_join_strategy(EquiJoinStrategy::HASH)
        .with_materialization(MaterializationChoice::EARLY)
        .with_min_speedup(MinSpeedup::times(2.0).unwrap())
        .with_strict(true);
    let read = BowtieOptions::from_map([
        ("bowtie.offload", "force"),
        ("device_memory", "8GB"),
        ("chunk_rows", "1000"),
        ("bowtie.join_strategy", "nphj"),
        ("materialization", "gftr"),
        ("min_speedup", "2"),
        ("strict", "true"),
    ]);
    assert_eq!(format!("{built:?}"), format!("{:?}", read.unwrap()));
    assert!(Bytes::at_most(7).is_err());
    assert!(ChunkRows::at_most(0).is_err());
    assert!(MinSpeedup::times(0.9).is_err());
    let wrong = BowtieOptions::from_map([("bowtie.device", "gpu")]).unwrap_err();
    assert!(
        wrong.to_string().contains("use auto, host, cuda"),
        "{wrong}"
    );
}

/// A number needs no quotes.
#[tokio::test]
async fn numbers_may_stand_without_quotes() {
    let context = empty_session();
    run(&context, "SET bowtie.chunk_rows = 1000").await.unwrap();
    run(&context, "SET bowtie.device_memory = 2097152")
        .await
        .unwrap();
    assert_eq!(shown(&context, "chunk_rows"), "1000");
    assert_eq!(shown(&context, "device_memory"), "2MB");
}

#[tokio::test]
async fn options_of_the_configuration_are_kept() {
    let set = BowtieOptions::default().with_offload(Offload::Force);
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_bowtie_options(set))
        .with_default_features()
        .with_bowtie()
        .unwrap()
        .build();
    let context = SessionContext::new_with_state(state);
    assert_eq!(options(&context).offload, Offload::Force);
}

#[tokio::test]
async fn show_names_the_option_and_its_value() {
    let context = session("force").await;
    assert_eq!(
        answer(&context, "SHOW bowtie.offload").await,
        "bowtie.offload force"
    );
}

/// `SHOW ALL` and `information_schema.df_settings` list every option by the name that SET takes.
#[tokio::test]
async fn all_options_are_listed_by_their_names() {
    let context = session("force").await;
    let sql = "SELECT name FROM information_schema.df_settings
               WHERE name NOT LIKE 'datafusion.%' AND description IS NOT NULL";
    let names = answer(&context, sql).await;
    assert_eq!(
        names.lines().collect::<Vec<_>>(),
        [
            "bowtie.broadcast_rows",
            "bowtie.cache",
            "bowtie.chunk_rows",
            "bowtie.device",
            "bowtie.device_memory",
            "bowtie.equi_join_strategy",
            "bowtie.group_strategy",
            "bowtie.host_cache",
            "bowtie.materialization",
            "bowtie.min_speedup",
            "bowtie.offload",
            "bowtie.set_strategy",
            "bowtie.strict",
            "bowtie.theta_strategy",
        ]
    );
}

#[tokio::test]
async fn an_option_works_from_the_next_query_on() {
    let context = session("force").await;
    assert!(!nodes(&context, THETA, &["BowtieJoinExec"]).await.is_empty());
    run(&context, "SET bowtie.offload = 'off'").await.unwrap();
    assert!(nodes(&context, THETA, &["BowtieJoinExec"]).await.is_empty());
}

#[tokio::test]
async fn a_gpu_that_is_not_there_is_refused_when_a_query_is_planned() {
    let context = session("force").await;
    context.sql("SET bowtie.device = 'cuda:99'").await.unwrap();
    let message = refusal(&context, THETA).await;
    for part in [
        "bowtie.device = 'cuda:99' is not available",
        "SET bowtie.device = 'auto' or 'host'",
    ] {
        assert!(message.contains(part), "{message}\nlacks\n{part}");
    }
    let reasons = [
        "no NVIDIA driver",
        "too old",
        "finds no GPU",
        "no GPU cuda:99",
    ];
    assert!(
        reasons.iter().any(|reason| message.contains(reason)),
        "{message}"
    );
    // The option can be set back, and is not read while nothing is offloaded.
    context.sql("SET bowtie.offload = 'off'").await.unwrap();
    run(&context, THETA).await.unwrap();
    context.sql("SET bowtie.device = 'host'").await.unwrap();
    context.sql("SET bowtie.offload = 'force'").await.unwrap();
    run(&context, THETA).await.unwrap();
}
