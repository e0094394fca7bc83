//! The host fallback: primitives of a GPU that run on the host. Arguments are downloaded, results uploaded.
//!
//! It serves types that are not stored on the GPU and structures without a kernel. Primitives with a kernel for the
//! given types do not use it.

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::ArrowNativeType;

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::Matches;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::Aggregated;
use crate::device::host::device::HostDevice;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::device::Device;
use crate::device::primitives::keys::{KeyPrimitives, SortKey};
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::GroupStrategy;

impl CudaDevice {
    /// Downloads words; words in host memory are shared.
    pub(crate) fn words_to_host<T: ArrowNativeType>(
        &self,
        words: &Buffer<T>,
    ) -> Result<ScalarBuffer<T>> {
        match words.on_cuda() {
            None => Ok(words.on_host()?.clone()),
            Some(memory) => {
                let bytes =
                    self.stream
                        .download_bytes(memory, words.len() * size_of::<T>(), None)?;
                Ok(ScalarBuffer::new(bytes, 0, words.len()))
            }
        }
    }

    fn host_buffer<T: ArrowNativeType>(&self, words: &Buffer<T>) -> Result<Buffer<T>> {
        let words = self.words_to_host(words)?;
        Ok(Buffer::host_shared(
            words,
            self.fallback.budget().lease(0, "host fallback")?,
        ))
    }

    /// Uploads words that the fallback computed.
    pub(crate) fn words_from_host<T: ArrowNativeType>(
        &self,
        words: &Buffer<T>,
        what: &'static str,
    ) -> Result<Buffer<T>> {
        let words = words.on_host()?;
        let bytes = words.inner().as_slice();
        let memory = self.stream.send(bytes, what)?;
        Ok(Buffer::cuda(memory, words.len()))
    }

    /// Downloads a column; a column in host memory is shared.
    pub(crate) fn column_to_host(&self, column: &Column) -> Result<Column> {
        let array = self.stream.download(column)?;
        Ok(Column::host(
            array,
            self.fallback.budget().lease(0, "host fallback")?,
        ))
    }

    /// Uploads a column that the fallback computed.
    pub(crate) fn column_from_host(&self, column: &Column) -> Result<Column> {
        let array = column.on_host()?;
        let column = self
            .stream
            .upload(std::slice::from_ref(array), array.data_type())?;
        self.receive(&column)?;
        Ok(column)
    }

    /// Downloads the first `len` bits.
    pub(crate) fn bits_to_host(&self, bits: &Bits, len: usize) -> Result<Bits> {
        Ok(Bits::Host(match bits {
            Bits::Host(bits) => bits.clone(),
            Bits::Device(memory) => self.stream.download_bits(memory.get()?, len, None)?,
        }))
    }

    /// Downloads keys and their validity.
    pub(crate) fn keys_to_host(&self, keys: &Keys) -> Result<Keys> {
        let rows = keys.rows();
        Ok(Keys {
            values: self.host_buffer(&keys.values)?,
            valid: match &keys.valid {
                Some(bits) => Some(self.bits_to_host(bits, rows)?),
                None => None,
            },
        })
    }

    /// Uploads keys and their validity.
    pub(crate) fn keys_from_host(&self, keys: &Keys) -> Result<Keys> {
        Ok(Keys {
            values: self.words_from_host(&keys.values, "order keys")?,
            valid: match &keys.valid {
                Some(bits) => Some(Bits::cuda(
                    self.stream.upload_bits(bits.on_host()?, "validity")?,
                )),
                None => None,
            },
        })
    }

    /// Downloads ordered rows with their keys and segments.
    pub(crate) fn ordered_rows_to_host(&self, build: &OrderedRows) -> Result<OrderedRows> {
        Ok(OrderedRows {
            rows: self.host_buffer(&build.rows)?,
            keys: build
                .keys
                .as_ref()
                .map(|keys| self.host_buffer(keys))
                .transpose()?,
            segments: build
                .segments
                .as_ref()
                .map(|s| self.host_buffer(s))
                .transpose()?,
        })
    }

    /// Downloads ranges.
    pub(crate) fn ranges_to_host(&self, ranges: &Ranges) -> Result<Ranges> {
        Ok(Ranges {
            lo: self.host_buffer(&ranges.lo)?,
            hi: self.host_buffer(&ranges.hi)?,
        })
    }

    /// Downloads words into a buffer.
    pub(crate) fn host_words<T: ArrowNativeType>(&self, words: &Buffer<T>) -> Result<Buffer<T>> {
        self.host_buffer(words)
    }

    /// Runs a fold over ranges, without tests, by the fallback.
    pub(crate) fn fold_on_host(
        &self,
        values: &Column,
        matches: Matches<'_>,
        fold: impl FnOnce(&HostDevice, &Column, Matches<'_>) -> Result<Column>,
    ) -> Result<Column> {
        let values = self.column_to_host(values)?;
        let build = self.ordered_rows_to_host(matches.build)?;
        let probe = self.ordered_rows_to_host(matches.probe)?;
        let ranges = self.ranges_to_host(matches.ranges)?;
        let matches = Matches {
            build: &build,
            probe: &probe,
            ranges: &ranges,
            tests: &[],
            program: None,
        };
        self.column_from_host(&fold(&self.fallback, &values, matches)?)
    }

    /// Sorts rows by columns by the fallback.
    pub(crate) fn sort_rows_on_host(
        &self,
        rows: usize,
        keys: &[SortKey<'_>],
        limit: Option<usize>,
    ) -> Result<Buffer<u32>> {
        let columns = keys.iter().map(|key| self.column_to_host(key.column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let keys: Vec<SortKey<'_>> = columns
            .iter()
            .zip(keys)
            .map(|(column, key)| SortKey { column, ..*key })
            .collect();
        let sorted = self.fallback.sort_rows(rows, &keys, limit)?;
        self.words_from_host(&sorted, "sorted rows")
    }

    /// Grouped aggregation by the fallback.
    pub(crate) fn aggregate_on_host(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        strategy: Option<GroupStrategy>,
    ) -> Result<Aggregated> {
        let keys: Vec<Column> = keys
            .iter()
            .map(|key| self.column_to_host(key))
            .collect::<Result<_>>()?;
        let values: Vec<Option<Column>> = folds
            .iter()
            .map(|(_, values)| values.map(|values| self.column_to_host(values)).transpose())
            .collect::<Result<_>>()?;
        let keys: Vec<&Column> = keys.iter().collect();
        let folds: Vec<(Fold, Option<&Column>)> = folds
            .iter()
            .zip(&values)
            .map(|((fold, _), values)| (*fold, values.as_ref()))
            .collect();
        let Aggregated {
            groups,
            keys,
            states,
            strategy,
        } = self.fallback.aggregate(rows, &keys, &folds, strategy)?;
        let up = |columns: &[Column]| {
            let columns = columns.iter().map(|column| self.column_from_host(column));
            columns.collect::<Result<_>>()
        };
        Ok(Aggregated {
            groups,
            keys: up(&keys)?,
            states: up(&states)?,
            strategy,
        })
    }

    /// The keys of at most `sample` rows, spread evenly.
    pub(crate) fn sample(&self, keys: &Keys, sample: usize) -> Result<Keys> {
        let rows = keys.rows();
        let count = rows.min(sample);
        let spread: Vec<u32> = (0..count)
            .map(|i| (i as u128 * rows as u128 / count as u128) as u32)
            .collect();
        let bytes: Vec<u8> = spread.iter().flat_map(|row| row.to_le_bytes()).collect();
        let ids = self.stream.send(&bytes, "a sample")?;
        let words = self
            .stream
            .gather_values(memory(&keys.values)?, &ids, count, 8)?;
        let valid = match valid_memory(keys.valid.as_ref())? {
            Some(valid) => Some(Bits::cuda(self.stream.gather_bits(valid, &ids, count)?)),
            None => None,
        };
        self.keys_to_host(&Keys {
            values: Buffer::cuda(words, count),
            valid,
        })
    }
}
