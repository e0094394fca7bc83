//! Queries that are planned as for a GPU, and run on the CPU backend.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::TableFunction;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::MemTable;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{EmptyRecordBatchStream, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::compat::rule_places::before_requirements;
use crate::device::machine_rates::{CardRates, HostRates};
use crate::options::DeviceChoice;
pub(crate) use crate::plan::choose::cost::tests::H200;
use crate::plan::choose::cost::tests::card;
use crate::plan::choose::policy::*;
use crate::plan::rule::BowtieRule;
use crate::report::explain_function::ExplainFunction;
use crate::runtime::session_devices::SessionDevices;

const ROWS: i32 = 1 << 20;

/// `r(k, x)` and `s(k, y)` of 2^20 and 2^21 rows; `few(k, z)` of 1000; `wide(k, t)` with long text.
pub(crate) fn session(gpu: Gpu) -> SessionContext {
    session_of(gpu, HostRates::REFERENCE)
}

/// The same on a host with these rates.
pub(crate) fn session_of(gpu: Gpu, host: HostRates) -> SessionContext {
    let options = BowtieOptions {
        device: DeviceChoice::Host,
        ..BowtieOptions::default()
    };
    let config = SessionConfig::new()
        .with_target_partitions(16)
        .with_option_extension(options);
    let rule = BowtieRule::new(Arc::new(SessionDevices::default()));
    let rule = Arc::new(rule.deciding_on(gpu, host));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    let rules = &mut state.physical_optimizers().get_or_insert_default().rules;
    let place = before_requirements(rules).unwrap();
    rules.insert(place, rule);
    let name = ExplainFunction::NAME.to_string();
    let function = Arc::new(TableFunction::new(name.clone(), Arc::new(ExplainFunction)));
    let functions = state.table_functions().get_or_insert_default();
    functions.insert(name, function);
    let context = SessionContext::new_with_state(state.build());
    let ints = |rows: i32, of: i32| -> ArrayRef {
        let values = (0..rows).map(|i| i.wrapping_mul(0x9E37_79B1u32 as i32).rem_euclid(of));
        Arc::new(Int32Array::from_iter_values(values))
    };
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS));
    let few: ArrayRef = Arc::new(Int32Array::from_iter_values(0..1000));
    let wide: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..ROWS / 4).map(|i| format!("{i:0>400}")),
    ));
    let sums: ArrayRef = Arc::new(Int64Array::from_iter_values(0..i64::from(2 * ROWS)));
    for (name, columns) in [
        ("r", vec![("k", Arc::clone(&keys)), ("x", ints(ROWS, 100))]),
        ("s", vec![("k", ints(2 * ROWS, ROWS)), ("y", sums)]),
        ("few", vec![("k", Arc::clone(&few)), ("z", few)]),
        (
            "wide",
            vec![("k", keys.slice(0, ROWS as usize / 4)), ("t", wide)],
        ),
    ] {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        context.register_table(name, Arc::new(table)).unwrap();
    }
    context
}

async fn rows(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

/// Names of the nodes that bowtie made.
pub(crate) async fn offloaded(context: &SessionContext, sql: &str) -> Vec<String> {
    let plan = context.sql(sql).await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    let names = shown
        .lines()
        .map(|line| line.trim().split([':', ' ']).next().unwrap());
    let ours = names.filter(|name| name.starts_with("Bowtie"));
    ours.map(|name| name.trim_start_matches("Bowtie").to_string())
        .collect()
}

#[derive(Debug)]
struct EmptyPartition(SchemaRef);

impl PartitionStream for EmptyPartition {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.0)))
    }
}

async fn reason(context: &SessionContext, sql: &str) -> String {
    let sql = format!(
        "SELECT node, decision, output_rows, bytes_up, bytes_down, reason FROM bowtie_explain('{sql}')
         WHERE decision IN ('offloaded', 'declined')"
    );
    rows(context, &sql).await
}

const JOIN: &str = "SELECT s.k, r.x, s.y FROM r JOIN s ON r.k = s.k";

#[tokio::test]
async fn a_join_that_gains_more_than_its_transfers_is_offloaded() {
    let context = session(H200);
    let sql =
        format!("SELECT count(*), sum(k), sum(y), max(x) FROM ({JOIN} ORDER BY y LIMIT 2000000)");
    assert!(
        offloaded(&context, &sql)
            .await
            .contains(&"JoinExec".to_string())
    );
    let on = rows(&context, &sql).await;
    context.sql("SET bowtie.offload = 'off'").await.unwrap();
    assert_eq!(on, rows(&context, &sql).await);
}

#[tokio::test]
async fn what_gains_nothing_stays_and_says_so() {
    let context = session(H200);
    context.sql("SET bowtie.cache = 'off'").await.unwrap();
    let few = "SELECT few.z, r.x FROM few JOIN r ON few.k = r.k WHERE r.k < 2000";
    for sql in [
        few,
        "SELECT r.x, wide.t FROM wide JOIN r ON wide.k = r.k",
        "SELECT x, count(*) FROM r GROUP BY x",
    ] {
        let reason = reason(&context, sql).await;
        assert_eq!(offloaded(&context, sql).await, [""; 0], "{reason}");
        assert!(reason.contains("estimated at"), "{reason}");
    }
    // Columns that stay on the device are sent for other queries, too.
    context.sql("SET bowtie.cache = 'auto'").await.unwrap();
    assert!(!offloaded(&context, few).await.is_empty());
}

#[tokio::test]
async fn an_aggregation_of_resident_rows_is_offloaded() {
    let context = session(H200);
    let sql = "SELECT r.x, sum(s.y) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.x ORDER BY r.x";
    assert_eq!(
        offloaded(&context, sql).await,
        [
            "DownloadExec",
            "SortExec",
            "ProjectionExec",
            "AggregateExec",
            "JoinExec",
            "UploadExec",
            "UploadExec"
        ]
    );
    let on = rows(&context, sql).await;
    context.sql("SET bowtie.offload = 'off'").await.unwrap();
    assert_eq!(on, rows(&context, sql).await);
}

/// A GPU takes an inequality beside unique keys, which a CPU leaves to DataFusion's hash join.
#[tokio::test]
async fn an_inequality_beside_unique_keys_is_offloaded() {
    let context = session(H200);
    let sql = "SELECT s.y FROM s JOIN (SELECT k, sum(x) AS m FROM r GROUP BY k) g ON s.k = g.k AND s.y > g.m";
    let offloaded = offloaded(&context, sql).await;
    assert!(offloaded.contains(&"JoinExec".to_string()), "{offloaded:?}");
}

/// Few rows are grouped by the node that joins them.
#[tokio::test]
async fn an_aggregation_of_few_rows_is_one_node_with_its_join() {
    let context = session(H200);
    let set = context.sql("SET bowtie.offload = 'force'").await;
    set.unwrap();
    let sql = "SELECT few.z, sum(s.y) AS n FROM few JOIN s ON few.k = s.k GROUP BY few.z";
    assert_eq!(
        offloaded(&context, sql).await,
        [
            "DownloadExec",
            "JoinAggregateExec",
            "UploadExec",
            "UploadExec"
        ]
    );
}

#[tokio::test]
async fn inputs_of_unknown_cardinality_are_not_offloaded() {
    let context = session(H200);
    let schema = context
        .table("few")
        .await
        .unwrap()
        .schema()
        .as_arrow()
        .clone();
    let stream = Arc::new(EmptyPartition(Arc::new(schema)));
    let table = StreamingTable::try_new(Arc::clone(stream.schema()), vec![stream]).unwrap();
    context.register_table("unknown", Arc::new(table)).unwrap();
    let sql = "SELECT few.z FROM few JOIN unknown u ON few.k = u.k";
    assert_eq!(offloaded(&context, sql).await, [""; 0]);
    let reason = reason(&context, sql).await;
    assert!(reason.contains("is unknown"), "{reason}");
}

/// The estimates are there where they decide.
#[tokio::test]
async fn explain_shows_estimates() {
    let context = session(H200);
    context.sql("SET bowtie.cache = 'off'").await.unwrap();
    let columns = "decision, output_rows, bytes_up, bytes_down, device_ms < host_ms AS sooner";
    let sql =
        format!("SELECT {columns} FROM bowtie_explain('{JOIN}') WHERE node = 'BowtieJoinExec'");
    insta::assert_snapshot!(rows(&context, &sql).await, @r"
    +-----------+-------------+----------+------------+--------+
    | decision  | output_rows | bytes_up | bytes_down | sooner |
    +-----------+-------------+----------+------------+--------+
    | offloaded | 2097152     | 33554432 | 41943040   | true   |
    +-----------+-------------+----------+------------+--------+
    ");
    let theta = "SELECT r.x FROM r JOIN s ON r.k < s.y";
    let sql =
        format!("SELECT {columns} FROM bowtie_explain('{theta}') WHERE node = 'BowtieJoinExec'");
    insta::assert_snapshot!(rows(&context, &sql).await, @r"
    +-----------+-------------+----------+------------+--------+
    | decision  | output_rows | bytes_up | bytes_down | sooner |
    +-----------+-------------+----------+------------+--------+
    | offloaded |             |          |            |        |
    +-----------+-------------+----------+------------+--------+
    ");
}

/// Without room for it, the left side crosses the bus for each chunk of the right one.
#[tokio::test]
async fn a_device_that_is_too_small_is_left_alone() {
    let context = session(card(1 << 20));
    let three = "SELECT r.x, t.y, s.y AS z FROM r JOIN s ON r.k = s.k JOIN s t ON t.k = s.k";
    assert_eq!(offloaded(&context, three).await, [""; 0]);
    assert!(!offloaded(&session(H200), three).await.is_empty());
}

/// A sort is on the device where its rows are, and with it the download is short.
#[tokio::test]
async fn sorts_follow_their_rows() {
    let context = session(H200);
    let groups = "SELECT k, max(y) AS m FROM s GROUP BY k";
    for (sql, sorted) in [
        (format!("{JOIN} ORDER BY y DESC"), true),
        (format!("{JOIN} ORDER BY y LIMIT 5"), true),
        (
            format!("SELECT m, k FROM ({groups}) WHERE m + k > 9 ORDER BY m"),
            true,
        ),
        // A fifth of the groups is downloaded, and the first of them are found soon.
        (
            format!("SELECT m, k FROM ({groups}) WHERE m % 2 = 0 ORDER BY m LIMIT 20"),
            false,
        ),
        (format!("{groups} LIMIT 20"), true),
        (
            "SELECT k, stddev(y) AS m FROM s GROUP BY k ORDER BY m LIMIT 3".into(),
            false,
        ),
        (
            "SELECT few.k FROM few JOIN few AS f ON few.k = f.k ORDER BY f.z".into(),
            false,
        ),
    ] {
        let offloaded = offloaded(&context, &sql).await;
        let is = |name: &str| offloaded.iter().any(|other| other == name);
        assert_eq!(
            is("SortExec") || is("LimitExec"),
            sorted,
            "{sql}: {offloaded:?}"
        );
        assert!(
            offloaded
                .iter()
                .filter(|name| *name == "DownloadExec")
                .count()
                <= 1
        );
        let given = rows(&context, &format!("SELECT count(*) FROM ({sql})")).await;
        context.sql("SET bowtie.offload = 'off'").await.unwrap();
        let expected = rows(&context, &format!("SELECT count(*) FROM ({sql})")).await;
        context.sql("SET bowtie.offload = 'auto'").await.unwrap();
        assert_eq!(given, expected, "{sql}");
    }
}

/// A join that gains on the reference. On a bus of an eighth it gains nothing.
#[tokio::test]
async fn a_slow_bus_leaves_joins_to_datafusion() {
    let on = |times: f64| {
        let rates = CardRates {
            uploaded_byte: times * CardRates::REFERENCE.uploaded_byte,
            downloaded_byte: times * CardRates::REFERENCE.downloaded_byte,
            ..CardRates::REFERENCE
        };
        session(Gpu { rates, ..H200 })
    };
    assert_eq!(offloaded(&on(1.0), JOIN).await.len(), 4);
    assert_eq!(offloaded(&on(1.2), JOIN).await.len(), 4);
    assert_eq!(offloaded(&on(8.0), JOIN).await, [""; 0]);
}

/// The same join, of which fast cores leave nothing to a GPU.
#[tokio::test]
async fn slow_cores_leave_more_to_a_gpu() {
    let on = |times: f64| {
        let probed_key = times * HostRates::REFERENCE.probed_key;
        let host = HostRates {
            probed_key,
            ..HostRates::REFERENCE
        };
        session_of(H200, host)
    };
    assert_eq!(offloaded(&on(0.3), JOIN).await, [""; 0]);
    for times in [0.8, 1.0, 2.0] {
        assert_eq!(offloaded(&on(times), JOIN).await.len(), 4, "{times}");
    }
}
