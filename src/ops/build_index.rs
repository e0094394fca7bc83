//! The build side of a theta join: grouped, sorted, with zone maps of the tested columns. In: a build chunk. Out:
//! [`BuildIndex`].

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::ranges::OrderedRows;
use crate::device::data::structures::{EquiIndex, GroupDomain, SetIndex, ZonedKeys};
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;
use crate::ir::pair_program::Program;
use crate::ir::set_predicate::{SetPredicate, SetTechnique};
use crate::ir::side::Side;
use crate::ir::strategies::{EquiStrategy, Strategy};
use crate::spec::join::MatchSpec;
use crate::spec::partners::Partners;

/// Rows sampled on each side to order the comparisons by selectivity.
const SAMPLE: usize = 512;

/// A comparison as the probe evaluates it: `build.column OP probe.column`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oriented {
    /// The build column, as an index into `key_columns`.
    pub key: usize,
    pub op: Comparison,
    /// The column of the probe side's batch.
    pub probe: usize,
}

/// A key column of the build side: the domain that makes the probe side's columns comparable with it.
#[derive(Debug)]
pub(crate) struct KeyColumn {
    pub domain: KeyDomain,
    /// Keys by build position, if the column is tested.
    pub zoned: Option<ZonedKeys>,
    /// Keys by row, if positions are those of match lists.
    keys: Option<Keys>,
}

/// How candidates are found.
#[derive(Debug)]
pub(crate) enum Order {
    /// By equal keys alone.
    Equi(EquiIndex),
    /// By group, if there are equalities, and by key.
    Sorted {
        build: OrderedRows,
        groups: Option<GroupDomain>,
    },
    /// By a predicate on sets: each probe has an order of its own.
    Sets(SetOrder),
}

/// An index of sets, with the columns that its probes gather.
#[derive(Debug)]
pub(crate) struct SetOrder {
    pub(crate) sets: SetIndex,
    pub(crate) groups: Option<GroupDomain>,
    /// The program's columns, by row.
    columns: Vec<Arc<Column>>,
}

/// An indexed build chunk.
#[derive(Debug)]
pub(crate) struct BuildIndex {
    pub(crate) order: Order,
    pub(crate) key_columns: Vec<KeyColumn>,
    /// Comparisons that narrow the range.
    pub(crate) bounds: Vec<Oriented>,
    /// What probe rows keep of their ranges.
    pub(crate) partners: Option<Partners>,
    /// Comparisons that are tested, the most selective first.
    pub(crate) tests: Vec<Oriented>,
    /// The program's columns of this side, by build position.
    pub(crate) program: Vec<Column>,
    /// The sets of lists whose values come out, if no predicate on sets finds the matches.
    pub(crate) compared: Option<SetIndex>,
    rows: usize,
}

impl BuildIndex {
    /// Indexes `batch`. `probe`: a chunk of the other side, from which selectivities are sampled. Without `comparisons`
    /// only the equalities are indexed, and the caller evaluates all other conditions, including `program`.
    pub(crate) fn build(
        device: &dyn Device,
        spec: &MatchSpec,
        program: Option<&Program>,
        batch: &DeviceBatch,
        probe: &DeviceBatch,
        comparisons: bool,
    ) -> Result<Self> {
        let index = Self::order(device, spec, program, batch, probe, comparisons)?;
        // Where the caller evaluates all conditions, it does all values, too.
        let compared = spec
            .compared_list(spec.build)
            .zip(spec.compared_list(spec.build.other()))
            .filter(|_| comparisons);
        let compared = compared.map(|(of_build, of_probe)| {
            device.set_index(
                batch.column(of_build)?,
                None,
                &[],
                // Nothing is searched by it.
                SetPredicate::Overlap(1).seen_from(spec.build),
                Some(SetTechnique::Intersect),
                probe.column(of_probe)?,
            )
        });
        Ok(Self {
            compared: compared.transpose()?,
            ..index
        })
    }

    /// The index by which candidates are found.
    fn order(
        device: &dyn Device,
        spec: &MatchSpec,
        program: Option<&Program>,
        batch: &DeviceBatch,
        probe: &DeviceBatch,
        comparisons: bool,
    ) -> Result<Self> {
        let side = spec.build;
        if let Strategy::Equi(strategy) = spec.strategy {
            let columns = equality_columns(spec, side, batch)?;
            let index = device.equi_index(&columns, spec.null_equal(), strategy)?;
            let program = match program.filter(|_| comparisons) {
                Some(program) => columns_at(device, program, side, batch, &index.rows)?,
                None => vec![],
            };
            return Ok(Self {
                order: Order::Equi(index),
                key_columns: vec![],
                bounds: vec![],
                partners: None,
                tests: vec![],
                program,
                compared: None,
                rows: batch.rows(),
            });
        }
        let groups = match spec.equalities.is_empty() {
            true => None,
            false => {
                let columns = equality_columns(spec, side, batch)?;
                Some(device.group_keys(&columns, spec.null_equal())?)
            }
        };

        let mut columns: Vec<usize> = vec![];
        let mut keys: Vec<(Keys, KeyDomain)> = vec![];
        let mut oriented: Vec<Oriented> = vec![];
        // Its key is the first one.
        let partners = spec.partners.filter(|_| comparisons);
        if let Some(partners) = &partners {
            columns.push(partners.column);
            keys.push(device.order_keys(batch.column(partners.column)?)?);
        }
        for comparison in spec.comparisons.iter().filter(|_| comparisons) {
            let column = comparison.column(side);
            let key = match columns.iter().position(|known| *known == column) {
                Some(key) => key,
                None => {
                    columns.push(column);
                    keys.push(device.order_keys(batch.column(column)?)?);
                    keys.len() - 1
                }
            };
            oriented.push(Oriented {
                key,
                op: comparison.op_from(side),
                probe: comparison.column(side.other()),
            });
        }

        let selectivity = match spec.strategy {
            Strategy::Range => vec![0.0; oriented.len()],
            Strategy::Dominance | Strategy::Tiles | Strategy::Equi(_) | Strategy::Set(_) => {
                sampled_selectivity(device, &keys, &oriented, probe)?
            }
        };
        let sort_key = match spec.strategy {
            Strategy::Tiles | Strategy::Equi(_) | Strategy::Set(_) => None,
            Strategy::Range if partners.is_some() => Some(0),
            Strategy::Range => oriented.iter().find(|c| c.op.is_range()).map(|c| c.key),
            Strategy::Dominance => most_selective_column(&oriented, &selectivity),
        };
        let (bounds, mut tests): (Vec<_>, Vec<_>) = oriented
            .iter()
            .zip(&selectivity)
            .partition(|(c, _)| Some(c.key) == sort_key && c.op.is_range());
        tests.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let bounds: Vec<Oriented> = bounds.into_iter().map(|(c, _)| *c).collect();
        let tests: Vec<Oriented> = tests.into_iter().map(|(c, _)| *c).collect();

        let not_null: Vec<&Keys> = keys.iter().map(|(keys, _)| keys).collect();
        if let (Strategy::Set(technique), Some(set), true) = (spec.strategy, &spec.set, comparisons)
        {
            let sets = device.set_index(
                batch.column(set.column(side))?,
                groups.as_ref().map(|(ids, domain)| (ids, domain.groups)),
                &not_null,
                set.predicate.seen_from(side),
                technique,
                probe.column(set.column(side.other()))?,
            )?;
            let program = program.map(|program| program.columns(side).iter());
            let columns = program.into_iter().flatten();
            return Ok(Self {
                order: Order::Sets(SetOrder {
                    sets,
                    groups: groups.map(|(_, domain)| domain),
                    columns: columns
                        .map(|column| batch.column(*column).cloned())
                        .collect::<Result<_>>()?,
                }),
                key_columns: keys
                    .into_iter()
                    .map(|(keys, domain)| KeyColumn {
                        domain,
                        zoned: None,
                        keys: Some(keys),
                    })
                    .collect(),
                bounds,
                partners: None,
                tests,
                program: vec![],
                compared: None,
                rows: batch.rows(),
            });
        }
        let build = device.sort(
            batch.rows(),
            sort_key.map(|key| &keys[key].0),
            groups.as_ref().map(|(ids, domain)| (ids, domain.groups)),
            &not_null,
        )?;
        let mut key_columns = Vec::with_capacity(keys.len());
        for (i, (keys, domain)) in keys.into_iter().enumerate() {
            let tested = tests.iter().any(|test| test.key == i);
            key_columns.push(KeyColumn {
                domain,
                zoned: tested
                    .then(|| device.zone_keys(&keys, &build))
                    .transpose()?,
                keys: None,
            });
        }
        let program = match program.filter(|_| comparisons) {
            Some(program) => columns_at(device, program, side, batch, &build)?,
            None => vec![],
        };
        Ok(Self {
            program,
            order: Order::Sorted {
                build,
                groups: groups.map(|(_, domain)| domain),
            },
            key_columns,
            bounds,
            partners,
            tests,
            compared: None,
            rows: batch.rows(),
        })
    }

    /// Its rows by position, unless each probe has an order of its own.
    pub(crate) fn ordered_rows(&self) -> Option<&OrderedRows> {
        match &self.order {
            Order::Equi(index) => Some(&index.rows),
            Order::Sorted { build, .. } => Some(build),
            Order::Sets(_) => None,
        }
    }

    /// The index of sets, if a predicate on sets finds the matches.
    pub(crate) fn sets(&self) -> Option<&SetOrder> {
        match &self.order {
            Order::Sets(sets) => Some(sets),
            Order::Equi(_) | Order::Sorted { .. } => None,
        }
    }

    /// The sets of this side whose values come out.
    pub(crate) fn valued_sets(&self) -> Option<&SetIndex> {
        let of_matches = self.sets().map(|of_matches| &of_matches.sets);
        of_matches.or(self.compared.as_ref())
    }

    /// The strategy of an equi-join index.
    pub(crate) fn equi_strategy(&self) -> Option<EquiStrategy> {
        match &self.order {
            Order::Equi(index) => Some(index.strategy),
            Order::Sorted { .. } | Order::Sets(_) => None,
        }
    }

    /// The keys of the probe side's rows for some comparisons.
    pub(crate) fn keys_of(
        &self,
        device: &dyn Device,
        comparisons: &[Oriented],
        batch: &DeviceBatch,
    ) -> Result<Vec<Keys>> {
        let keys = comparisons.iter().map(|c| {
            let domain = &self.key_columns[c.key].domain;
            device.order_keys_in(domain, batch.column(c.probe)?)
        });
        keys.collect()
    }

    /// The probe side's keys to which the kept partners are the nearest.
    pub(crate) fn centre_keys(
        &self,
        device: &dyn Device,
        batch: &DeviceBatch,
    ) -> Result<Option<Keys>> {
        let centre = self.partners.and_then(|partners| partners.centre);
        let keys = centre
            .map(|column| device.order_keys_in(&self.key_columns[0].domain, batch.column(column)?));
        keys.transpose()
    }

    /// The rows of the build chunk, including those that can match nothing.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The zone maps of a tested column.
    pub(crate) fn zoned(&self, key: usize) -> Result<&ZonedKeys> {
        self.key_columns[key]
            .zoned
            .as_ref()
            .ok_or_else(|| BowtieError::Internal("a tested column without zones".into()))
    }
}

impl BuildIndex {
    /// The keys of a column by row, for an index of sets.
    pub(crate) fn set_keys(&self, key: usize) -> Result<&Keys> {
        self.key_columns[key]
            .keys
            .as_ref()
            .ok_or_else(|| BowtieError::Internal("a tested column without keys".into()))
    }

    /// The program's columns by row, for an index of sets.
    pub(crate) fn set_columns(&self) -> &[Arc<Column>] {
        self.sets().map_or(&[], |order| &order.columns)
    }
}

/// Gathers `columns` in the order of `build`.
pub(crate) fn gathered(
    device: &dyn Device,
    columns: &[Arc<Column>],
    build: &OrderedRows,
) -> Result<Vec<Column>> {
    let columns = columns.iter();
    columns
        .map(|column| device.gather(column, &build.rows))
        .collect()
}

/// The columns of `batch` that `program` reads, in the order of `build`.
pub(crate) fn columns_at(
    device: &dyn Device,
    program: &Program,
    side: Side,
    batch: &DeviceBatch,
    build: &OrderedRows,
) -> Result<Vec<Column>> {
    let columns = program.columns(side).iter();
    columns
        .map(|column| device.gather(batch.column(*column)?, &build.rows))
        .collect()
}

/// The columns of the equalities on `side`, whose rows are in `batch`.
pub(crate) fn equality_columns<'a>(
    spec: &MatchSpec,
    side: Side,
    batch: &'a DeviceBatch,
) -> Result<Vec<&'a Column>> {
    let columns = spec.keys(side);
    columns
        .map(|column| batch.column(column).map(AsRef::as_ref))
        .collect()
}

/// The selectivity of each comparison, by a sample of both sides. Probe keys are made of the sample alone.
fn sampled_selectivity(
    device: &dyn Device,
    keys: &[(Keys, KeyDomain)],
    oriented: &[Oriented],
    probe: &DeviceBatch,
) -> Result<Vec<f64>> {
    let sample = sampled_rows(device, probe.rows())?;
    let others = oriented.iter().map(|c| {
        let (domain, column) = (&keys[c.key].1, probe.column(c.probe)?);
        match &sample {
            Some(rows) => device.order_keys_in(domain, &device.gather(column, rows)?),
            None => device.order_keys_in(domain, column),
        }
    });
    let others = others.collect::<Result<Vec<_>>>()?;
    let tests: Vec<_> = oriented
        .iter()
        .zip(&others)
        .map(|(c, other)| (&keys[c.key].0, c.op, other))
        .collect();
    device.sample_selectivity(&tests, SAMPLE)
}

/// Row ids spread evenly over `rows` rows; `None` if they are no more than a sample.
fn sampled_rows(device: &dyn Device, rows: usize) -> Result<Option<Buffer<u32>>> {
    if rows <= SAMPLE {
        return Ok(None);
    }
    let ids = (0..SAMPLE as u64).map(|i| (i * rows as u64 / SAMPLE as u64) as u32);
    let ids: ArrayRef = Arc::new(UInt32Array::from_iter_values(ids));
    let ids = Arc::into_inner(device.upload(&[ids])?);
    let ids = ids.ok_or_else(|| BowtieError::Internal("the device kept row ids".into()))?;
    ids.into_row_ids().map(Some)
}

/// The key column whose comparisons together are the most selective, assuming independence.
fn most_selective_column(oriented: &[Oriented], selectivity: &[f64]) -> Option<usize> {
    let columns = oriented.iter().filter(|c| c.op.is_range()).map(|c| c.key);
    let share = |column: usize| -> f64 {
        oriented
            .iter()
            .zip(selectivity)
            .filter(|(c, _)| c.key == column && c.op.is_range())
            .map(|(_, s)| *s)
            .product()
    };
    columns.min_by(|a, b| share(*a).total_cmp(&share(*b)))
}
