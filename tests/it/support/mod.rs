//! What tests share: sessions, tables, tunings, and the comparison of answers.

pub(crate) mod answer;
pub(crate) mod borders;
pub(crate) mod codec;
pub(crate) mod compare;
pub(crate) mod damage;
pub(crate) mod intervals;
pub(crate) mod join_types;
pub(crate) mod key_types;
pub(crate) mod left_out;
pub(crate) mod lists;
pub(crate) mod metrics;
pub(crate) mod pool;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod tables;
pub(crate) mod tuning;
