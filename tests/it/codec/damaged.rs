//! Messages that are cut off or altered on their way are errors, or other plans. None makes the receiver panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieCodec;
use datafusion_proto::physical_plan::{DefaultPhysicalProtoConverter, PhysicalExtensionCodec};

use crate::codec::tables;
use crate::support::answer::{plan_of, shown};
use crate::support::codec::{decoded, encoded};
use crate::support::damage::altered;
use crate::support::session::set;

type Plan = Arc<dyn ExecutionPlan>;

/// Each kind of message, and of the nodes in a region.
const QUERIES: [&str; 8] = [
    "SELECT r.id, s.id FROM r LEFT JOIN s ON r.a < s.a AND r.b > s.b",
    "SELECT r.g, count(*), sum(s.a) FROM r JOIN s ON r.a = s.a WHERE r.b * s.b > 3 GROUP BY r.g",
    "SELECT g, t, count(*), avg(c), max(t), count(DISTINCT a) FROM r GROUP BY ROLLUP (g, t)",
    "SELECT r.t, s.a FROM r JOIN s ON r.a < s.b ORDER BY r.id, s.id LIMIT 7 OFFSET 2",
    "SELECT x.id, y.id, array_jaccard(x.v, y.v) FROM l x JOIN l y ON array_overlap(x.v, y.v) >= 2",
    "SELECT r.id, n.id FROM r JOIN LATERAL (SELECT s.id FROM s WHERE s.a <= r.a ORDER BY s.a DESC, s.id LIMIT 2) n ON true",
    "SELECT * FROM bowtie_clusters('SELECT x.id, y.id FROM l x JOIN l y ON array_jaccard(x.v, y.v) >= 0.9')",
    "SELECT * FROM bowtie_clusters('SELECT id, a FROM r')",
];

/// A message, and the plans below its node.
struct Sent {
    message: Vec<u8>,
    inputs: Vec<Plan>,
}

impl Sent {
    /// The first of bowtie's nodes in a plan.
    fn of(plan: &Plan) -> Option<Self> {
        if !["BowtieDownloadExec", "ClustersExec"].contains(&plan.name()) {
            return plan.children().into_iter().find_map(Self::of);
        }
        let mut message = vec![];
        let converter = DefaultPhysicalProtoConverter {};
        BowtieCodec::default()
            .try_encode(Arc::clone(plan), &mut message, &converter)
            .unwrap();
        let mut inputs = vec![];
        add_inputs(plan, &mut inputs);
        Some(Self { message, inputs })
    }

    /// The node that arrives as `message`.
    fn received(&self, ctx: &SessionContext, message: &[u8]) -> Result<Plan> {
        let (context, converter) = (ctx.task_ctx(), DefaultPhysicalProtoConverter {});
        BowtieCodec::default().try_decode(message, &self.inputs, &context, &converter)
    }
}

/// The plans below the nodes of a device.
fn add_inputs(node: &Plan, inputs: &mut Vec<Plan>) {
    for child in node.children() {
        match child.name().starts_with("Bowtie") && child.name() != "BowtieDownloadExec" {
            true => add_inputs(child, inputs),
            false => inputs.push(Arc::clone(child)),
        }
    }
}

/// What is decoded, unless it panics.
fn unless_it_panics<T>(what: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    decoded.unwrap_or_else(|_| panic!("it panics: {what}"))
}

#[tokio::test]
async fn messages_that_are_cut_off() {
    let ctx = tables().await;
    set(&ctx, "bowtie.offload", "force");
    for sql in QUERIES {
        let plan = plan_of(&ctx, sql).await.unwrap();
        let sent = Sent::of(&plan).unwrap_or_else(|| panic!("{sql}\n{}", shown(&plan)));
        sent.received(&ctx, &sent.message).unwrap();
        for length in 0..sent.message.len() {
            let what = format!("{sql}: {length} bytes");
            let cut = &sent.message[..length];
            let received = unless_it_panics(&what, || sent.received(&ctx, cut));
            assert!(received.is_err(), "{what}");
        }
    }
}

#[tokio::test]
async fn messages_that_are_altered() {
    let ctx = tables().await;
    set(&ctx, "bowtie.offload", "force");
    let (mut plans, mut errors) = (0, 0);
    for sql in QUERIES {
        let plan = plan_of(&ctx, sql).await.unwrap();
        let sent = Sent::of(&plan).unwrap();
        for other in altered(&sent.message, 0..sent.message.len(), 100) {
            let what = format!("{sql}: {:?}", other.places);
            match unless_it_panics(&what, || sent.received(&ctx, &other.bytes)) {
                Ok(_) => plans += 1,
                Err(_) => errors += 1,
            }
        }
    }
    assert!(plans > 0 && errors > 0, "{plans} plans, {errors} errors");
}

/// A plan of DataFusion's messages, in which bowtie's are.
#[tokio::test]
async fn plans_that_are_cut_off() {
    let ctx = tables().await;
    set(&ctx, "bowtie.offload", "force");
    for sql in QUERIES {
        let bytes = encoded(&plan_of(&ctx, sql).await.unwrap()).unwrap();
        decoded(&ctx, &bytes).unwrap();
        for length in (0..bytes.len()).step_by(bytes.len() / 100 + 1) {
            let what = format!("{sql}: {length} bytes");
            let received = unless_it_panics(&what, || decoded(&ctx, &bytes[..length]));
            assert!(received.is_err(), "{what}");
        }
    }
}
