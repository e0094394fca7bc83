//! Set joins: containment, overlap and similarity of lists, by every technique, beside DataFusion's row-wise functions.
//!
//! The oracle is the same query with `bowtie.offload = 'off'`, for which DataFusion evaluates the function on each pair of rows; the
//! functions of this crate are compared with naive ones in `functions`. Of `array_has_all` DataFusion makes TRUE or NULL where a list
//! is NULL, by what else is in the batch, so its oracle asks for lists that are not.

mod explain;
mod joins;
mod limits;
mod techniques;
