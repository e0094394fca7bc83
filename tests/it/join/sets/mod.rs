//! Set joins: containment, overlap and similarity of lists, by every technique.
//!
//! The oracle is the same query with `bowtie.offload = 'off'`, for which DataFusion evaluates the function on each pair of rows; the
//! functions of this crate are tested in `crate::functions`. In DataFusion, `array_has_all` of a NULL list is TRUE or NULL, depending on
//! the other rows of the batch, so its oracle has a filter for lists that are not NULL.

mod explain;
mod joins;
mod limits;
mod most_similar;
mod of_texts;
mod repeats;
mod techniques;
mod values;
