//! The session's state behind the trait that table functions see.

use datafusion::catalog::Session;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;

/// The state of a session of DataFusion's own type.
///
/// # Errors
/// For a session of another type; the error names `function`.
pub(crate) fn state_of<'a>(session: &'a dyn Session, function: &str) -> Result<&'a SessionState> {
    let state = session.as_any().downcast_ref();
    state.ok_or_else(|| {
        DataFusionError::Plan(format!(
            "{function} needs a session of DataFusion's own type"
        ))
    })
}
