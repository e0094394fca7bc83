//! [`DeviceClusters`]: the clusters of pairs by primitives of a device, and their columns piece by piece.
//!
//! ```text
//! left ids ──┐ concat, group_keys                connect              first_of_component
//!            ├──────────────────► numbers ──────────────► components ──────────────────► the row of each number's cluster
//! right ids ─┘                       │ first_rows, gather                   ▲
//!                                    ▼                     sort_rows        │
//!                              distinct ids ────────────────────────────► order
//! ```

use std::sync::Arc;

use arrow::compute::SortOptions;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::primitives::device::Device;
use crate::device::primitives::keys::SortKey;
use crate::error::Result;
use crate::exec::join::piece_size::PieceSize;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::metrics::DeviceMetrics;
use crate::spec::clusters::ClustersSpec;

/// Bytes of device memory for an id of a pair while it is numbered, beside those of its value: key words and row ids of a sort, and a number.
pub(crate) const WORK_BYTES: u64 = 44;

/// The distinct ids of pairs, and the cluster of each.
#[derive(Debug)]
pub(crate) struct FoundClusters {
    ids: BatchColumn,
    /// For each id the place in `ids` of the least one of its component.
    clusters: Buffer<u32>,
    /// The number of clusters.
    pub(crate) count: usize,
}

impl FoundClusters {
    /// The clusters of the pairs of all `batches`; `None` where all ids are NULL.
    pub(crate) fn of(device: &dyn Device, batches: &[DeviceBatch]) -> Result<Option<Self>> {
        let pairs: usize = batches.iter().map(DeviceBatch::rows).sum();
        check_chunk_rows(2 * pairs)?;
        // All left ids, then all right ones.
        let sides = [0, 1].into_iter();
        let parts = sides.flat_map(|side| batches.iter().map(move |batch| batch.any(side)));
        let parts = parts.collect::<Result<Vec<&BatchColumn>>>()?;
        let both = BatchColumn::concat(device, &parts)?;
        let (numbers, domain) = device.group_keys(&[both.values()?], false)?;
        let nodes = domain.groups as usize;
        drop(domain);
        if nodes == 0 {
            return Ok(None);
        }
        let ids = both.gather(device, &device.first_rows(&numbers, nodes)?)?;
        drop(both);
        let forest = device.forest(nodes)?;
        let left = device.row_slice(&numbers, 0..pairs)?;
        let right = device.row_slice(&numbers, pairs..2 * pairs)?;
        drop(numbers);
        device.connect(&forest, &left, &right)?;
        drop((left, right));
        let components = device.components(forest)?;
        let key = SortKey {
            column: ids.values()?,
            options: SortOptions::default(),
        };
        let order = device.sort_rows(nodes, &[key], None)?;
        Ok(Some(Self {
            clusters: device.first_of_component(&components, &order)?,
            count: components.count,
            ids,
        }))
    }
}

/// Clusters whose rows are emitted piece by piece.
pub(crate) struct DeviceClusters {
    device: Arc<dyn Device>,
    found: FoundClusters,
    spec: Arc<ClustersSpec>,
    /// The place of the next id.
    next: usize,
    /// The number of ids that are emitted.
    rows: usize,
    size: PieceSize,
    metrics: DeviceMetrics,
}

impl DeviceClusters {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        found: FoundClusters,
        spec: Arc<ClustersSpec>,
        metrics: DeviceMetrics,
    ) -> Self {
        let ids = found.clusters.len();
        let mut size = PieceSize::new(device.as_ref());
        let bytes = 2 * found.ids.bytes() as usize / ids.max(1);
        size.fit(device.as_ref(), bytes);
        Self {
            device,
            rows: ids.min(spec.fetch.unwrap_or(usize::MAX)),
            found,
            spec,
            next: 0,
            size,
            metrics,
        }
    }

    /// The next rows; `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Result<Option<DeviceBatch>> {
        let device = self.device.as_ref();
        loop {
            let pieces = self.size.of_rows(self.next, self.rows);
            let Some(rows) = pieces.into_iter().next() else {
                self.metrics.baseline.done();
                return Ok(None);
            };
            let _timer = self.metrics.output_time.timer();
            let piece = || {
                let columns = self.spec.columns.iter().map(|column| {
                    let places = match column {
                        0 => device.sequence(rows.start as u32, rows.len())?,
                        _ => device.row_slice(&self.found.clusters, rows.clone())?,
                    };
                    self.found.ids.gather(device, &places).map(Some)
                });
                let columns = columns.collect::<Result<Vec<_>>>()?;
                Ok(DeviceBatch::new(rows.len(), columns))
            };
            let made = match rows.len() > 1 {
                true => step::shared(device, OnRefusal::Shrink, |_| piece()),
                false => step::retried(device, &mut (), |(), _| piece(), |()| true),
            };
            match made {
                Err(error) if error.is_divisible() && rows.len() > 1 && self.size.halve() => {}
                made => {
                    self.size.made();
                    self.next = rows.end;
                    return made.map(Some);
                }
            }
        }
    }
}
