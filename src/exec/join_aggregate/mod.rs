//! Aggregation fused with the join below it (\[T\] section 4). In: device chunks of both inputs. Out: chunks of groups.
//! A join's walk over tiles (`exec/join/walk.rs`) makes partial states instead of output rows.

pub(crate) mod counted;
pub(crate) mod group_sink;
pub(crate) mod grouped;
pub(crate) mod intervals;
pub(crate) mod left_groups;
mod method;
pub(crate) mod node;
pub(crate) mod pairs;
pub(crate) mod states;
pub(crate) mod weighted;
