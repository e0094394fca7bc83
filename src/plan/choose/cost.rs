//! The cost model: seconds of a node in DataFusion, and on a GPU. It has few constants, and serves the choice between the two alone.
//! The constants are those of one H200 and its host; the rates of the machine at hand scale them.
//!
//! Kernels take far less time than transfers, so transfers decide. A transfer is counted from batches to batches, which takes longer than
//! its copy. Only DataFusion's joins and aggregations have costs: other operators run in either plan.

use crate::device::machine_rates::{CardRates, HostRates};

/// The rows that one node reads of another.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Flow {
    pub rows: f64,
    /// Columns that are read.
    pub columns: usize,
    /// Bytes of these columns in all rows.
    pub bytes: f64,
}

/// The work of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    Join {
        left: Flow,
        right: Flow,
        output: Flow,
        /// Whether DataFusion builds one table of the left side, on one core.
        collected: bool,
    },
    Group {
        input: Flow,
        groups: f64,
        aggregates: usize,
        /// Keys of text or of binary values.
        text_keys: usize,
        /// Whether DataFusion aggregates in two stages: each partition's rows first, and then their groups.
        twice: bool,
    },
    /// An aggregation fused with the join below it.
    JoinGroup {
        left: Flow,
        right: Flow,
        groups: f64,
        aggregates: usize,
    },
    /// A filter, a projection or a union.
    Rows { input: Flow },
    /// A sort, of which `kept` rows are wanted.
    Sort { input: Flow, keys: usize, kept: f64 },
    /// A limit.
    Limit,
}

/// The host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Host {
    /// Cores that DataFusion uses: its target partitions.
    pub cores: usize,
    pub rates: HostRates,
}

/// A GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gpu {
    /// Bytes for columns and for the work on them.
    pub memory: u64,
    pub rates: CardRates,
}

const NS: f64 = 1e-9;
const PS: f64 = 1e-12;

/// DataFusion's hash join, in time of one core: by `docs/benchmarks/cuda/equi.csv`, `rows`, on 16 cores. 157, 152 and 254 ns for a
/// build row, two probe rows and two rows of output of three columns and 12 bytes, with 2^20, 2^23 and 2^25 build rows.
mod hash_join {
    pub const BUILD_ROW: f64 = 45.0;
    pub const PROBE_ROW: f64 = 40.0;
    pub const OUTPUT_VALUE: f64 = 4.0;
    pub const OUTPUT_BYTE: f64 = 0.25;
    /// Build rows from which hash tables are far larger than caches, and the factor of all other constants then.
    pub const LARGE_BUILD: f64 = (1 << 24) as f64;
    pub const LARGE: f64 = 1.65;
}

/// DataFusion's aggregation, in time of one core. Measured on 2 cores by `cargo bench --bench group -- --filter sum`: 7.6, 10.5 and
/// 73 ns a row for 4.2M rows in 2^4, 2^16 and 2^20 groups. Scaled by 1.9, the factor by which the hash join slows down on 16 cores.
/// Each of 16 partitions makes most groups again: 27M partial groups become the 2M of TPC-H Q17, in some 400 ms.
mod hash_aggregate {
    pub const ROW: f64 = 6.0;
    pub const AGGREGATE: f64 = 4.0;
    pub const TEXT_KEY: f64 = 25.0;
    /// A group of a partition, which is created and then merged.
    pub const GROUP: f64 = 250.0;
}

/// DataFusion's filters and projections, in time of one core. TPC-H Q06 at SF 10 takes 16 cores 194 ms for 60M rows of 52 bytes.
mod mapped {
    pub const ROW: f64 = 10.0;
    pub const BYTE: f64 = 0.5;
}

/// Reading of Parquet files, in time of one core. TPC-H Q06 at SF 10 takes 16 cores 259 ms over files and 105 in memory, for 60M rows of 52 bytes.
mod decoded {
    pub const BYTE: f64 = 0.8;
}

/// DataFusion's sort, in time of one core, by its parts: a comparison of keys in row format for each level of the merge, and a copy of the
/// rows; where few rows are kept, a look at most rows. Estimated, not measured.
mod sorted_on_host {
    pub const COMPARISON: f64 = 4.0;
    pub const ROW: f64 = 40.0;
    pub const BYTE: f64 = 0.5;
    pub const SKIPPED_ROW: f64 = 8.0;
}

/// Nothing was measured on more cores, whose work may be bound by memory.
const MOST_CORES: usize = 32;

/// From batches to columns on a GPU and back, in bytes a second: 28 GB/s of a query's execution, where copies alone reach 42 to 50
/// (docs/performance). Downloaded rows come in one partition, which DataFusion repartitions.
const UP: f64 = 28e9;
const DOWN: f64 = 12e9;
/// Rows of filters and projections come in pieces of many rows, into memory that was never touched: 30M and 6.3M rows of 48 bytes and 60M of 16 took
/// 570, 92 and 154 ms on an H200 (`docs/benchmarks/cuda/selections-parquet.csv`).
const DOWN_ROWS: f64 = 4e9;
/// Bytes a second that one core stages.
const UP_PER_CORE: f64 = 5e9;

/// Seconds to start a node, and to plan and start a chain: from 2^20 build rows down, `equi.csv` has 1.8 ms for two uploads, a join and a
/// download.
const NODE: f64 = 0.4e-3;
/// Launches of a node, each with a wait, of which all take longer on a card with slow launches. Estimated, not measured.
const NODE_LAUNCHES: f64 = 20.0;

/// Kernels of joins: 15 ps a row in and out, 1.5 ps a byte (`docs/benchmarks/cuda/equi-device.csv`, partitioned hash, 2^25 ⋈ 2^26
/// with 0, 2 and 8 columns a side: 2.5, 5.1 and 14.9 ms).
mod joined {
    pub const ROW: f64 = 15.0;
    pub const BYTE: f64 = 1.5;
}

/// Kernels of aggregations: `docs/benchmarks/cuda/group-device.csv`, keys anywhere, 2^28 rows in 2^4 to 2^26 groups: 1.8 to 36 ms,
/// for two accumulators. Text is encoded as tuples of words; text of more than 71 bytes is grouped by the host. `TEXT_KEY` was measured for
/// these: text of up to 7 bytes, which is grouped as numbers, and text that depends on other keys take less, but no statistic tells them.
mod grouped {
    pub const ROW: f64 = 20.0;
    pub const AGGREGATE: f64 = 20.0;
    pub const TEXT_KEY: f64 = 4_000.0;
    /// The states and the first row of a group; sixteen accumulators are one launch.
    pub const GROUP: f64 = 300.0;
}

/// Kernels of sorts: eight passes of 24 bytes for a key, of a rate of 3 TB/s, and as much again to make its words (`docs/internals/kernels.md`);
/// a byte of a row that is gathered in no order. Estimated, not measured.
mod sorted {
    pub const KEY: f64 = 130.0;
    pub const BYTE: f64 = 3.0;
}

/// A byte of the input of a filter, a projection or a union.
const MAPPED_BYTE: f64 = 1.0;

/// A group that DataFusion's accumulators finish, on one thread; each aggregate of it.
mod finished {
    pub const GROUP: f64 = 10.0;
    pub const AGGREGATE: f64 = 15.0;
}

/// The share of the memory for the columns of one side; keys, indexes and output need the rest.
const SHARE_OF_A_SIDE: f64 = 0.25;

impl Host {
    /// Seconds of one core for work that takes `ns` nanoseconds of a core of the reference.
    pub(crate) fn one_core(self, ns: f64) -> f64 {
        ns * NS * self.rates.operators()
    }

    /// The same, on all cores.
    pub(crate) fn parallel(self, core_ns: f64) -> f64 {
        self.one_core(core_ns) / self.cores.clamp(1, MOST_CORES) as f64
    }

    /// Seconds of DataFusion's accumulators, which finish groups of a GPU.
    pub(crate) fn finish(self, groups: f64, aggregates: usize) -> f64 {
        self.one_core(groups * (finished::GROUP + finished::AGGREGATE * aggregates as f64))
    }

    /// Seconds to read rows from Parquet files.
    pub(crate) fn decode(self, flow: Flow) -> f64 {
        self.parallel(decoded::BYTE * flow.bytes)
    }

    /// Groups of all partitions together, where a group's rows are spread over the partitions.
    fn groups_of_partitions(self, rows: f64, groups: f64) -> f64 {
        let places = groups.max(1.0) * self.cores.max(1) as f64;
        places * -(-rows / places).exp_m1()
    }

    /// Seconds of the work in DataFusion.
    pub(crate) fn seconds(self, work: &Work) -> f64 {
        match *work {
            Work::Join {
                left,
                right,
                output,
                collected,
            } => {
                let large = match left.rows > hash_join::LARGE_BUILD {
                    true => hash_join::LARGE,
                    false => 1.0,
                };
                let build = hash_join::BUILD_ROW * left.rows;
                let build = match collected {
                    true => self.one_core(build),
                    false => self.parallel(large * build),
                };
                let written = hash_join::OUTPUT_VALUE * output.rows * output.columns as f64
                    + hash_join::OUTPUT_BYTE * output.bytes;
                let probe = hash_join::PROBE_ROW * right.rows;
                build + self.parallel(large * (probe + written))
            }
            Work::Group {
                input,
                groups,
                aggregates,
                text_keys,
                twice,
            } => {
                let of_row = hash_aggregate::ROW
                    + hash_aggregate::AGGREGATE * aggregates as f64
                    + hash_aggregate::TEXT_KEY * text_keys as f64;
                let made = match twice {
                    true => self.groups_of_partitions(input.rows, groups),
                    false => groups,
                };
                self.parallel(of_row * input.rows + hash_aggregate::GROUP * made)
            }
            Work::Rows { input } => {
                self.parallel(mapped::ROW * input.rows + mapped::BYTE * input.bytes)
            }
            Work::Sort { input, kept, .. } if kept < input.rows => self.parallel(
                sorted_on_host::SKIPPED_ROW * input.rows
                    + sorted_on_host::COMPARISON * kept * kept.max(2.0).log2(),
            ),
            Work::Sort { input, .. } => {
                let compared = sorted_on_host::COMPARISON * input.rows.max(2.0).log2();
                let copied = sorted_on_host::BYTE * input.bytes;
                self.parallel((sorted_on_host::ROW + compared) * input.rows + copied)
            }
            // Counted at the two nodes of a fused one.
            Work::JoinGroup { .. } => 0.0,
            Work::Limit => 0.0,
        }
    }
}

impl Gpu {
    /// Seconds to upload the rows, `times` times.
    pub(crate) fn up(&self, flow: Flow, times: f64, host: Host) -> f64 {
        let staged = UP_PER_CORE * host.cores.max(1) as f64 / host.rates.copies();
        let rate = staged.min(UP / self.rates.uploads());
        self.node(flow) + flow.bytes * times / rate
    }

    /// Seconds to download the rows.
    pub(crate) fn down(&self, flow: Flow) -> f64 {
        self.start() + flow.bytes * self.rates.downloads() / DOWN
    }

    /// Seconds to download what a filter or a projection made of many rows: the memory that takes them limits it, so a faster link does not help.
    pub(crate) fn down_rows(&self, flow: Flow) -> f64 {
        self.start() + flow.bytes * self.rates.downloads().max(1.0) / DOWN_ROWS
    }

    /// Seconds to start a node.
    pub(crate) fn start(&self) -> f64 {
        NODE + NODE_LAUNCHES * self.rates.launch_delay()
    }

    /// Seconds to keep a node's rows on the device: rows that exceed its memory are downloaded and uploaded again.
    pub(crate) fn output_on_device(&self, flow: Flow, host: Host) -> f64 {
        match flow.bytes > self.memory as f64 * SHARE_OF_A_SIDE {
            true => self.down(flow) + self.up(flow, 1.0, host),
            false => 0.0,
        }
    }

    /// Seconds of the work on resident rows.
    pub(crate) fn seconds(&self, work: &Work) -> f64 {
        // Tables are read and written in no order; partitions, columns and the words of keys in order.
        let (anywhere, in_order) = (self.rates.gathers(), self.rates.copies());
        let join = |left: Flow, right: Flow, output: Flow| {
            let rows = left.rows + right.rows + output.rows;
            let bytes = left.bytes + right.bytes + output.bytes;
            anywhere * joined::ROW * rows + in_order * joined::BYTE * bytes
        };
        let longest = match *work {
            Work::Join { left, right, .. } | Work::JoinGroup { left, right, .. } => {
                match left.rows > right.rows {
                    true => left,
                    false => right,
                }
            }
            Work::Group { input, .. } | Work::Rows { input } | Work::Sort { input, .. } => input,
            Work::Limit => Flow::default(),
        };
        let picoseconds = match *work {
            Work::Join {
                left,
                right,
                output,
                ..
            } => join(left, right, output),
            Work::Group {
                input,
                groups,
                aggregates,
                text_keys,
                ..
            } => {
                let folds = grouped::ROW + grouped::AGGREGATE * aggregates as f64;
                let text = grouped::TEXT_KEY * text_keys as f64;
                (anywhere * folds + in_order * text) * input.rows
                    + anywhere * grouped::GROUP * groups
            }
            Work::JoinGroup {
                left,
                right,
                groups,
                aggregates,
            } => {
                let none = Flow::default();
                let folds = grouped::AGGREGATE * aggregates as f64 * (left.rows + right.rows);
                join(left, right, none) + anywhere * (folds + grouped::GROUP * groups)
            }
            Work::Rows { input } => in_order * MAPPED_BYTE * input.bytes,
            Work::Sort { input, keys, kept } => {
                let bytes = input.bytes / input.rows.max(1.0) * kept;
                in_order * sorted::KEY * keys as f64 * input.rows + anywhere * sorted::BYTE * bytes
            }
            Work::Limit => 0.0,
        };
        self.node(longest) + picoseconds * PS
    }
}

#[cfg(test)]
pub(crate) mod tests;
