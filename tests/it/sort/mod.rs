//! ORDER BY and LIMIT on the device: rows in DataFusion's order, and one download of the rows of the result.

mod check;
mod key_types;
mod limits;
mod memory;
mod plans;
