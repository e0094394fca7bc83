//! Nodes for stages that others have planned: each stands in the place of one node of DataFusion, and keeps its children, schema and partitions.
//!
//! ```text
//! AggregateExec: mode=Partial        BowtieStageExec: AggregateExec        executes  BowtieDownloadExec
//!   HashJoinExec             ──►       BowtieFusedExec: HashJoinExec                   BowtieAggregateExec
//!     ShuffleReaderExec                  ShuffleReaderExec                               BowtieJoinExec
//!     DataSourceExec                     DataSourceExec                                    BowtieUploadExec
//!                                                                                            StageInputExec (ShuffleReaderExec)
//!                                                                                          BowtieScanExec
//! ```

pub(crate) mod collected;
pub(crate) mod fused;
pub(crate) mod input;
mod instance;
pub(crate) mod node;
pub(crate) mod shared_rows;
