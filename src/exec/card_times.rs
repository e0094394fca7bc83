//! Times on the card of a node that EXPLAIN ANALYZE runs, among its metrics.

use futures::{Stream, StreamExt as _};

use crate::device::trace::{self, Scope};
use crate::exec::blocking::{joined, spawn_blocking};

/// `chunks` of a node, which are polled in its scope. If its work is timed, the card's times become metrics after the last chunk; they
/// are not asked for where the reader ends before.
pub(crate) fn in_scope_of<S: Stream>(scope: Scope, chunks: S) -> impl Stream<Item = S::Item> {
    let timed = scope.is_timed.then(|| scope.clone());
    let chunks = trace::in_scope_of(scope, chunks);
    let times = futures::stream::iter(timed).filter_map(|scope| async move {
        let waiting = {
            let _entered = trace::enter(Some(scope.clone()));
            spawn_blocking(move || scope.add_card_times())
        };
        // A failure of the card is told by the node's work, not by its times.
        let _ = joined(waiting).await;
        None
    });
    chunks.chain(times)
}
