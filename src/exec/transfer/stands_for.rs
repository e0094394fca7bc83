//! [`StandsFor`]: DataFusion's nodes in the place of device nodes: what the codec sends, and what runs where a device fails.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::options::BowtieOptions;

/// Makes a plan of DataFusion's nodes of another one, if there is one.
pub(crate) type Restore = fn(&Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>>;

/// What a download and the device nodes below it stand for.
#[derive(Debug, Clone)]
pub(crate) struct StandsFor {
    /// The node of DataFusion's plan whose rows come out.
    pub(crate) node: Arc<dyn ExecutionPlan>,
    /// Makes nodes of DataFusion alone of that node and those below it, if that can be.
    pub(crate) restored: Restore,
    /// The options by which it was planned.
    #[cfg_attr(
        not(feature = "codec"),
        expect(dead_code, reason = "sent by the codec")
    )]
    pub(crate) options: Arc<BowtieOptions>,
    /// The limit of rows that it was given later, if it was.
    pub(crate) limit: Option<Option<usize>>,
}
