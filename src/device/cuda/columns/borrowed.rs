//! [`Borrowed`]: a column that a store owns, as a query on another stream reads it.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::storage::Storage;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::{Column, DeviceColumn};
use crate::device::data::opaque::Opaque;

/// A column of another stream.
#[derive(Debug)]
pub(crate) struct Borrowed {
    column: Arc<Column>,
    _loan: Arc<Loan>,
}

/// The columns that a stream borrowed together.
#[derive(Debug)]
struct Loan {
    borrower: Arc<Stream>,
    owners: Vec<Arc<Stream>>,
    /// Kept until the owners are ordered after the borrower.
    columns: Vec<Arc<Column>>,
}

impl Drop for Loan {
    /// What was launched until now may still read the columns: their owners free them after that.
    fn drop(&mut self) {
        let ordered = self.owners.iter().try_for_each(|owner| {
            let done = self.borrower.mark()?;
            owner.after(&done)
        });
        if ordered.is_err() {
            // Without an order by events the card is waited for.
            let _ = self.borrower.gpu.context.synchronize();
        }
        self.columns.clear();
    }
}

/// The columns as `borrower` reads them. Those in host memory need no loan.
pub(crate) fn borrow(borrower: &Arc<Stream>, columns: Vec<Arc<Column>>) -> Vec<Arc<Column>> {
    let mut owners: Vec<Arc<Stream>> = vec![];
    for owner in columns.iter().filter_map(|column| column.stored()?.owner()) {
        if !owners.iter().any(|known| Arc::ptr_eq(known, owner)) {
            owners.push(Arc::clone(owner));
        }
    }
    let loan = Arc::new(Loan {
        borrower: Arc::clone(borrower),
        owners,
        columns: columns.clone(),
    });
    let borrowed = columns.into_iter().map(|column| match column.stored() {
        None => column,
        Some(_) => {
            let rows = column.rows();
            let borrowed = Borrowed {
                column,
                _loan: Arc::clone(&loan),
            };
            Arc::new(Column::of_device(borrowed, rows))
        }
    });
    borrowed.collect()
}

impl Borrowed {
    pub(crate) fn stored(&self) -> Option<&Storage> {
        self.column.stored()
    }
}

impl DeviceColumn for Borrowed {
    fn bytes(&self) -> u64 {
        self.column.bytes()
    }

    /// Nobody consumes a column that is shared.
    fn relabel(self: Box<Self>, _: &DataType) -> Box<dyn DeviceColumn> {
        self
    }

    fn into_row_ids(self: Box<Self>) -> Option<Opaque> {
        None
    }
}
