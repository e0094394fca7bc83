//! [`BowtieCodec`]: bowtie's nodes in plans that are sent to other processes.
//!
//! ```text
//! BowtieDownloadExec            a region:  the nodes of DataFusion that it stands for, as DataFusion sends them (region.rs)
//!   BowtieJoinExec              a part:    nothing but its inputs
//!     BowtieUploadExec          a part
//!       DataSourceExec          DataFusion's
//!     BowtieScanExec            a part
//! ClustersExec                  its columns
//! ```
//!
//! Who receives a region plans it anew for its own devices.

mod clusters;
mod extended_join;
mod message;
mod region;
mod sent_inputs;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde_json::json;

use crate::exec::node::DeviceNode;
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::plan::codec::message::{Kind, Message};
use crate::plan::codec::sent_inputs::SentInputsExec;
use crate::runtime::process::BowtieRuntime;
use crate::runtime::session_devices::SessionDevices;

type Plan = Arc<dyn ExecutionPlan>;

/// Encodes the nodes of plans that a session with bowtie made, and decodes them where they arrive.
///
/// What is sent are DataFusion's nodes, which the receiver offloads to its own devices under the sender's `bowtie.*` options; where these ask
/// for a device that is not there, decoding fails and says so. A message begins with the version of its form: another version is refused, by an
/// error that names both.
///
/// As-of joins, and others that keep the first partners of each row, arrive without DataFusion's nodes in their place: the receiver offloads what the
/// sender offloaded with them, and if its device fails before the first row, the query ends with the error also under `bowtie.offload = 'auto'`.
///
/// Functions are sent by name: the receiver's session needs those of bowtie
/// ([`with_bowtie_coordinator`](crate::BowtieSessionExt::with_bowtie_coordinator)). A plan with a scalar subquery that is computed apart
/// cannot be decoded, as DataFusion gives its value to no codec: `SET datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery = false`
/// makes joins of these.
///
/// Stages that [`BowtieStageRule`](crate::BowtieStageRule) offloads need no codec: they are sent as nodes of DataFusion.
#[derive(Debug, Clone)]
pub struct BowtieCodec {
    devices: Arc<SessionDevices>,
}

impl Default for BowtieCodec {
    /// For the devices of the process's shared runtime.
    fn default() -> Self {
        Self::new(BowtieRuntime::shared())
    }
}

impl BowtieCodec {
    /// For the devices of a runtime.
    pub fn new(runtime: Arc<BowtieRuntime>) -> Self {
        let devices = Arc::new(SessionDevices::of(runtime));
        Self { devices }
    }
}

impl PhysicalExtensionCodec for BowtieCodec {
    fn try_encode(
        &self,
        node: Plan,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let message = match () {
            () if node.is::<BowtieDownloadExec>() => {
                region::encoded(&node, &self.devices, converter)?
            }
            () if node.is::<DeviceNode>() => Message::new(Kind::Part, json!({})),
            () => clusters::encoded(&node)?,
        };
        message.write(buffer)
    }

    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[Plan],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Plan> {
        caught(|| {
            let message = Message::read(buffer)?;
            let reader = (context, converter);
            match message.kind {
                Kind::Region => region::decoded(&message, inputs, reader, &self.devices),
                Kind::Part => Ok(Arc::new(SentInputsExec::of(inputs))),
                Kind::Clusters => clusters::decoded(&message, inputs),
                Kind::Input | Kind::ExtendedJoin => message.is_misplaced(),
            }
        })
    }
}

/// The plan that `decode` gives; its panic is an error. DataFusion trusts the numbers of a message, such as those of the columns that an expression
/// reads, and panics where a message was altered.
fn caught(decode: impl FnOnce() -> Result<Plan>) -> Result<Plan> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        exec_err!(
            "a message of bowtie cannot be read: {}",
            text.unwrap_or("it panicked")
        )
    })
}
