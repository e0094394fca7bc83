//! The feature `tracing`, and `datafusion-tracing` beside bowtie: it wraps every node of the plan.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieSessionExt as _;
use datafusion_tracing::{InstrumentationOptions, instrument_with_info_spans};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Instrument as _, Metadata, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::support::session::{device, session, set};
use crate::support::tables::{mixed_table, register};

/// The spans inside of one with the name [`ROOT`], each as the names from there on. One of `datafusion-tracing` has the name of its node.
#[derive(Default)]
struct Seen {
    paths: Mutex<Vec<Vec<String>>>,
    /// Other tests run beside this one, without spans.
    is_on: AtomicBool,
}

const ROOT: &str = "the test's own";

struct Collector(Arc<Seen>);

/// What `datafusion-tracing` calls a span.
struct Named(String);

impl Visit for Named {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "otel.name" {
            self.0 = format!("{value:?}");
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.is_on.load(Ordering::Relaxed)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut named = Named(attributes.metadata().name().into());
        attributes.record(&mut named);
        let span = context.span(id).unwrap();
        span.extensions_mut().insert(named);
        let names = span.scope().map(|span| {
            let extensions = span.extensions();
            let named = extensions.get::<Named>();
            named.map(|named| named.0.clone()).unwrap_or_default()
        });
        let names: Vec<_> = names.collect();
        if let Some(root) = names.iter().position(|name| name == ROOT) {
            let path = names[..root].iter().rev().cloned().collect();
            self.0.paths.lock().unwrap().push(path);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if let Some(named) = span.extensions_mut().get_mut::<Named>() {
            values.record(named);
        }
    }
}

/// The process has one subscriber.
fn seen() -> Arc<Seen> {
    static SEEN: OnceLock<Arc<Seen>> = OnceLock::new();
    let seen = SEEN.get_or_init(|| {
        let seen = Arc::new(Seen::default());
        let subscriber = Registry::default().with(Collector(Arc::clone(&seen)));
        tracing::subscriber::set_global_default(subscriber).unwrap();
        seen
    });
    Arc::clone(seen)
}

/// The session that tests have, with the rule of `datafusion-tracing` behind bowtie's.
fn instrumented() -> SessionContext {
    let rule = instrument_with_info_spans!(options: InstrumentationOptions::builder().record_metrics(true).build());
    let state = SessionStateBuilder::new_from_existing(session().state())
        .with_bowtie()
        .unwrap()
        .with_physical_optimizer_rule(rule)
        .build();
    SessionContext::new_with_state(state)
}

async fn rows(ctx: &SessionContext, sql: &str) -> String {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

/// What is reported of a query.
async fn explained(ctx: &SessionContext, sql: &str) -> String {
    let query = ctx.sql(sql).await.unwrap();
    datafusion_bowtie::explain(&query)
        .await
        .unwrap()
        .to_string()
}

const QUERIES: [&str; 4] = [
    "SELECT r.g, count(*), sum(s.a) FROM r JOIN s ON r.a < s.a GROUP BY r.g ORDER BY r.g",
    "SELECT r.g, s.a, r.b FROM r JOIN s ON r.a = s.a WHERE s.b > 0 ORDER BY r.g, s.a, r.b LIMIT 20",
    "SELECT g, min(a), count(DISTINCT b) FROM r GROUP BY g ORDER BY g",
    "SELECT r.a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a BETWEEN r.a - 1 AND r.a + 1) UNION ALL SELECT a FROM s ORDER BY 1",
];

#[tokio::test]
async fn nodes_that_are_wrapped_give_the_same_rows_and_reports() {
    let plain = session();
    let wrapped = instrumented();
    for ctx in [&plain, &wrapped] {
        register(ctx, "r", &mixed_table(900, 0.1, 1));
        register(ctx, "s", &mixed_table(700, 0.1, 2));
        set(ctx, "bowtie.offload", "force");
    }
    for sql in QUERIES {
        assert_eq!(rows(&wrapped, sql).await, rows(&plain, sql).await, "{sql}");
        // What is explained and profiled are the nodes, not what wraps them.
        let (one, other) = (explained(&wrapped, sql).await, explained(&plain, sql).await);
        assert_eq!(one, other, "{sql}");
        let query = wrapped.sql(sql).await.unwrap();
        let profile = datafusion_bowtie::profile(query).await.unwrap();
        let json: serde_json::Value = serde_json::from_str(&profile.to_json()).unwrap();
        let nodes = json["nodes"].as_array().unwrap();
        let timed = |node: &serde_json::Value| {
            let spans = json["timeline"]["spans"].as_array().unwrap();
            spans.iter().any(|span| span["node"] == node["id"])
        };
        let on_device = nodes.iter().filter(|node| node["runs_on"] != "datafusion");
        assert!(on_device.clone().count() > 1, "{sql}: {nodes:?}");
        assert!(on_device.clone().any(timed), "{sql}: no node has a span");
    }
    let analyzed = rows(&wrapped, &format!("EXPLAIN ANALYZE {}", QUERIES[0])).await;
    assert!(
        analyzed.contains("BowtieJoinAggregateExec") && analyzed.contains("output_rows="),
        "{analyzed}"
    );
}

#[tokio::test]
async fn steps_are_spans_below_those_of_their_nodes() {
    let seen = seen();
    let ctx = instrumented();
    register(&ctx, "r", &mixed_table(900, 0.1, 1));
    register(&ctx, "s", &mixed_table(700, 0.1, 2));
    set(&ctx, "bowtie.offload", "force");
    seen.is_on.store(true, Ordering::Relaxed);
    let query = async { ctx.sql(QUERIES[0]).await.unwrap().collect().await.unwrap() };
    query.instrument(info_span!("the test's own")).await;
    seen.is_on.store(false, Ordering::Relaxed);

    let paths = seen.paths.lock().unwrap();
    let is_there = |end: &[&str]| {
        paths.iter().any(|path| {
            path.ends_with(
                &end.iter()
                    .map(|name| (*name).to_string())
                    .collect::<Vec<_>>(),
            )
        })
    };
    // DataFusion executes the download, and that one the nodes whose rows stay on the device.
    assert!(
        is_there(&["BowtieDownloadExec", "BowtieJoinAggregateExec"]),
        "{paths:?}"
    );
    if device() != "host" {
        for submitted in ["launch", "copy", "wait"] {
            assert!(
                is_there(&["BowtieDownloadExec", "BowtieJoinAggregateExec", submitted]),
                "{submitted}: {paths:?}"
            );
        }
    }
}
