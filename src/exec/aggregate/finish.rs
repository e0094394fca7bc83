//! Finishes the groups of a [`GroupRun`] after the last chunk: on the device if they stay there, otherwise by
//! DataFusion's accumulators.

use std::sync::Arc;

use arrow::array::new_empty_array;

use crate::device::batches::batch::DeviceBatch;
use crate::error::{IfItFits as _, Result};
use crate::exec::aggregate::output::{Finished, FinishedRun};
use crate::exec::aggregate::resident::ResidentGroups;
use crate::exec::aggregate::run::GroupRun;
use crate::exec::memory::on_request::Evictable;
use crate::exec::memory::step::{self, Step};

/// The share of the budget from which on groups are evicted for others, as a divisor.
const WORTHWHILE_SHARE: u64 = 64;

impl FinishedRun for GroupRun {
    fn next_groups(&mut self) -> Result<Option<Finished>> {
        if !self.finishing {
            self.finishing = true;
            if let Some(batch) = self.shared_step(Self::finish_on_device)? {
                self.on_device = true;
                return Ok(Some(Finished::OnDevice(batch)));
            }
            self.shared_step(Self::leave_device)?;
            self.fold_nothing()?;
            self.shared_step(Self::finish_on_host)?;
        }
        if self.on_device {
            return Ok(None);
        }
        self.device.check_cancelled()?;
        let device = Arc::clone(&self.device);
        let groups = self.table.next(&|| device.check_cancelled())?;
        Ok(groups.map(Finished::OnHost))
    }
}

impl Evictable for GroupRun {
    /// Few groups stay: without them all later ones would be merged on the host.
    fn holds_device_memory(&self) -> bool {
        let groups = self.resident.as_ref();
        let worthwhile = self.device.budget().limit() / WORTHWHILE_SHARE;
        groups.is_some_and(|groups| groups.bytes() as u64 > worthwhile)
    }

    fn evict_for_others(&mut self) -> Result<()> {
        // On the host they may take more.
        let resident = self.resident.as_ref().map_or(0, ResidentGroups::bytes);
        let bytes = self.partials.bytes() + 2 * resident;
        match self.table.can_spill() || self.table.account(bytes).is_ok_and(|fits| fits) {
            true => self.shared_step(Self::leave_device).map(|_| ()),
            // What the pool refuses stays where it is.
            false => self.account(),
        }
    }
}

impl GroupRun {
    /// Downloads the resident groups to free device memory; false if there are none.
    pub(crate) fn leave_device(&mut self) -> Result<bool> {
        let Some(groups) = self.resident.take() else {
            return Ok(false);
        };
        for partial in groups.partials()? {
            self.partials.push(partial);
        }
        self.account()?;
        Ok(true)
    }

    /// The distinct groups, if they are resident and the last merge fits.
    fn finish_on_device(&mut self) -> Result<Option<DeviceBatch>> {
        let Some(groups) = &mut self.resident else {
            return Ok(None);
        };
        // The host merges and spills what the memory pool refuses.
        if self.spec.is_downloaded && !self.table.account(groups.bytes())? {
            return Ok(None);
        }
        Ok(groups.finish().if_it_fits()?.flatten())
    }

    /// Groups an empty batch if no chunk came.
    fn fold_nothing(&mut self) -> Result<()> {
        // A grouping set without keys has one group even without rows.
        if self.metrics.chunks.value() == 0 && self.spec.key_columns() > 0 {
            let (device, input) = (Arc::clone(&self.device), self.spec.input.schema());
            let device = device.as_ref();
            for set in 0..self.spec.sets.len() {
                let fold = |run: &mut Self, _: &Step<'_>| {
                    let columns = input.fields().iter().map(|field| {
                        let empty = new_empty_array(field.data_type());
                        Ok(Some(device.upload(&[empty])?.into()))
                    });
                    run.fold(&DeviceBatch::new(0, columns.collect::<Result<_>>()?), set)
                };
                step::retried(device, self, fold, |_| true)?;
            }
        }
        Ok(())
    }

    /// Merges the partial groups and adds them to the table.
    fn finish_on_host(&mut self) -> Result<()> {
        self.device.check_cancelled()?;
        if self.partials.waiting().len() > 1 {
            self.merge()?;
        }
        for partial in self.partials.take() {
            self.add_to_table(partial)?;
        }
        Ok(())
    }
}
