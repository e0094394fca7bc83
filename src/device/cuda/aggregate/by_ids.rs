//! Aggregation by dense group ids: in shared memory, in clusters, in global memory, by partition, or sorted.

use crate::device::cuda::aggregate::accumulate::added::{self, AddedInGlobal};
use crate::device::cuda::aggregate::accumulate::cluster;
use crate::device::cuda::aggregate::accumulate::launches;
use crate::device::cuda::aggregate::choose::FEW_IN_GLOBAL;
use crate::device::cuda::aggregate::choose::FEW_PARTITIONED;
use crate::device::cuda::aggregate::directory::Ids;
use crate::device::cuda::aggregate::partition;
use crate::device::cuda::aggregate::results::Folded;
use crate::device::cuda::aggregate::strategy_run::StrategyRun;
use crate::device::cuda::runtime::memory::Memory;
use crate::error::Result;
use crate::ir::strategies::GroupStrategy;

impl StrategyRun<'_> {
    /// Adds rows to accumulators by id. `shared`: in shared memory, if it holds the accumulators of most ids.
    pub(crate) fn by_ids(&self, ids: Ids<'_>, groups: usize, shared: bool) -> Result<Folded> {
        let outs = added::outs(self.stream, self.all, groups)?;
        let inside = launches::accumulate_dense(
            self.stream,
            ids,
            self.rows,
            groups,
            self.all,
            &outs,
            shared,
        )?
        .inside;
        Ok(Folded::of(outs, groups).by(match shared && inside {
            true => GroupStrategy::HashShared,
            false => GroupStrategy::HashGlobal,
        }))
    }

    /// Adds rows in the shared memory of clusters and in global memory; `None` where clusters gain nothing.
    pub(crate) fn by_ids_in_clusters(
        &self,
        ids: Ids<'_>,
        groups: usize,
        strategy: GroupStrategy,
    ) -> Result<Option<Folded>> {
        let (stream, rows) = (self.stream, self.rows);
        let Some(clusters) = cluster::clusters(stream, rows, groups, self.all)? else {
            return Ok(None);
        };
        let outs = added::outs(stream, self.all, groups)?;
        let added =
            cluster::accumulate_in_clusters(stream, clusters, ids, rows, groups, self.all, &outs)?;
        Ok(Some(Folded {
            added: Some(added),
            ..Folded::of(outs, groups).by(strategy)
        }))
    }

    /// Adds rows in global memory, for ids none of which has many rows. Where a block's shared memory cannot hold the
    /// accumulators, a share of them is in the clusters' shared memory.
    pub(crate) fn by_ids_in_global(&self, ids: Ids<'_>, groups: usize) -> Result<Folded> {
        if groups <= FEW_IN_GLOBAL {
            return self.by_ids(ids, groups, false);
        }
        if !self.fits_shared(groups)
            && let Some(folded) = self.by_ids_in_clusters(ids, groups, GroupStrategy::HashGlobal)?
        {
            return Ok(folded);
        }
        let outs = added::outs(self.stream, self.all, groups)?;
        let added =
            launches::accumulate_in_global(self.stream, ids, self.rows, groups, self.all, &outs)?;
        Ok(Folded {
            added: Some(added),
            ..Folded::of(outs, groups).by(GroupStrategy::HashGlobal)
        })
    }

    /// Partitions rows by id, and adds them partition by partition to accumulators in global memory.
    pub(crate) fn by_partitioned_ids(&self, ids: Ids<'_>, groups: usize) -> Result<Folded> {
        let (words, order) = partition::partition_ids(
            self.stream,
            ids,
            groups,
            self.rows,
            self.all,
            self.materialization,
        )?;
        let partitioned = Ids {
            words: &words,
            ..ids
        };
        let outs = added::outs(self.stream, self.all, groups)?;
        let mut added = AddedInGlobal::new(groups);
        order.fold(self.stream, groups, self.all, &outs, &mut |all, outs| {
            let (stream, rows) = (self.stream, self.rows);
            if groups > FEW_PARTITIONED {
                added.extend(launches::accumulate_in_global(
                    stream,
                    partitioned,
                    rows,
                    groups,
                    all,
                    outs,
                )?);
            } else {
                launches::accumulate_dense(stream, partitioned, rows, groups, all, outs, false)?;
            }
            Ok(())
        })?;
        Ok(Folded {
            parts: Some((words, order.spread_bit())),
            added: (groups > FEW_PARTITIONED).then_some(added),
            ..Folded::of(outs, groups)
                .materialized(order.materialization())
                .by(GroupStrategy::Partition)
        })
    }

    /// Sorts rows by id, and adds up the segments of equal ids. `strategy` is only reported.
    pub(crate) fn by_sorted_ids(
        &self,
        ids: &Memory,
        groups: usize,
        strategy: GroupStrategy,
    ) -> Result<Folded> {
        let (sorted, order) = partition::order_of_ids(
            self.stream,
            ids,
            groups,
            self.rows,
            (self.all, self.materialization),
        )?;
        let sorted = sorted.as_ref().unwrap_or(ids);
        let outs = added::outs(self.stream, self.all, groups)?;
        order.fold(self.stream, groups, self.all, &outs, &mut |all, outs| {
            launches::accumulate_sorted(self.stream, sorted, self.rows, groups, all, outs)
        })?;
        let folded = Folded::of(outs, groups).materialized(order.materialization());
        Ok(folded.by(strategy))
    }
}
