//! The build side of a theta join: grouped, sorted, with zone maps of the tested columns. In: a build chunk. Out:
//! [`BuildIndex`].

use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::ranges::OrderedRows;
use crate::device::data::structures::{EquiIndex, GroupDomain, SetIndex, ZonedKeys};
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ir::pair_program::Program;
use crate::ir::set_predicate::{SetPredicate, SetSpec, SetTechnique};
use crate::ir::side::Side;
use crate::ir::strategies::EquiStrategy;
use crate::ops::compared::{Compared, Oriented};
use crate::spec::join::{MatchMethod, MatchSpec};
use crate::spec::partners::Partners;

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

/// The group of each row's equal keys, and what makes those of the probe side comparable with it; `None` without equalities.
struct Groups(Option<(Buffer<u32>, GroupDomain)>);

impl Groups {
    fn of(device: &dyn Device, spec: &MatchSpec, batch: &DeviceBatch) -> Result<Self> {
        if spec.equalities.is_empty() {
            return Ok(Self(None));
        }
        let columns = equality_columns(spec, spec.build, batch)?;
        let groups = device.group_keys(&columns, spec.null_equal())?;
        Ok(Self(Some(groups)))
    }

    /// The ids, and the number of groups.
    fn ids(&self) -> Option<(&Buffer<u32>, u32)> {
        let groups = self.0.as_ref();
        groups.map(|(ids, domain)| (ids, domain.groups))
    }

    fn order(self, build: OrderedRows) -> Order {
        Order::Sorted {
            build,
            groups: self.0.map(|(_, domain)| domain),
        }
    }
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
    /// Indexes `batch` for all of `spec` and `program`. `probe`: a chunk of the other side, from which selectivities are sampled.
    pub(crate) fn build(
        device: &dyn Device,
        spec: &MatchSpec,
        program: Option<&Program>,
        batch: &DeviceBatch,
        probe: &DeviceBatch,
    ) -> Result<Self> {
        let index = match &spec.method {
            MatchMethod::Equi(strategy) => Self::of_keys(device, spec, *strategy, batch)?,
            MatchMethod::Set(set, technique) => {
                let columns = program.into_iter().flat_map(|of| of.columns(spec.build));
                let columns = columns.map(|column| batch.column(*column).cloned());
                let columns = columns.collect::<Result<_>>()?;
                Self::of_sets(device, spec, (set, *technique), columns, [batch, probe])?
            }
            MatchMethod::Range(_) | MatchMethod::Dominance | MatchMethod::Tiles => {
                Self::sorted(device, spec, batch, probe)?
            }
        };
        let program = match (program, index.ordered_rows()) {
            (Some(program), Some(rows)) => columns_at(device, program, spec.build, batch, rows)?,
            _ => vec![],
        };
        Ok(Self {
            program,
            compared: compared_sets(device, spec, batch, probe)?,
            ..index
        })
    }

    /// Indexes `batch` by the equalities of `spec` alone: the caller evaluates all other conditions, and the values.
    pub(crate) fn by_equalities(
        device: &dyn Device,
        spec: &MatchSpec,
        batch: &DeviceBatch,
    ) -> Result<Self> {
        if let MatchMethod::Equi(strategy) = spec.method {
            return Self::of_keys(device, spec, strategy, batch);
        }
        let groups = Groups::of(device, spec, batch)?;
        let build = device.sort(batch.rows(), None, groups.ids(), &[])?;
        Ok(Self::new(groups.order(build), batch.rows()))
    }

    fn new(order: Order, rows: usize) -> Self {
        Self {
            order,
            key_columns: vec![],
            bounds: vec![],
            partners: None,
            tests: vec![],
            program: vec![],
            compared: None,
            rows,
        }
    }

    fn of_keys(
        device: &dyn Device,
        spec: &MatchSpec,
        strategy: Option<EquiStrategy>,
        batch: &DeviceBatch,
    ) -> Result<Self> {
        let columns = equality_columns(spec, spec.build, batch)?;
        let index = device.equi_index(&columns, spec.null_equal(), strategy)?;
        Ok(Self::new(Order::Equi(index), batch.rows()))
    }

    fn of_sets(
        device: &dyn Device,
        spec: &MatchSpec,
        (set, technique): (&SetSpec, Option<SetTechnique>),
        columns: Vec<Arc<Column>>,
        [batch, probe]: [&DeviceBatch; 2],
    ) -> Result<Self> {
        let side = spec.build;
        let groups = Groups::of(device, spec, batch)?;
        let compared = Compared::of(device, spec, batch)?;
        let selectivity = compared.sampled_selectivity(device, probe)?;
        let (_, tests) = compared.bounds_and_tests(None, &selectivity);
        let sets = device.set_index(
            batch.column(set.column(side))?,
            groups.ids(),
            &compared.keys(),
            set.predicate.seen_from(side),
            technique,
            probe.column(set.column(side.other()))?,
        )?;
        let order = Order::Sets(SetOrder {
            sets,
            groups: groups.0.map(|(_, domain)| domain),
            columns,
        });
        let key_columns = compared.columns.into_iter().map(|column| KeyColumn {
            domain: column.domain,
            zoned: None,
            keys: Some(column.keys),
        });
        Ok(Self {
            key_columns: key_columns.collect(),
            tests,
            ..Self::new(order, batch.rows())
        })
    }

    fn sorted(
        device: &dyn Device,
        spec: &MatchSpec,
        batch: &DeviceBatch,
        probe: &DeviceBatch,
    ) -> Result<Self> {
        let groups = Groups::of(device, spec, batch)?;
        let compared = Compared::of(device, spec, batch)?;
        let selectivity = match spec.method {
            MatchMethod::Range(_) => vec![0.0; compared.comparisons.len()],
            _ => compared.sampled_selectivity(device, probe)?,
        };
        let sort_key = match &spec.method {
            // The key of the partners is the first one.
            MatchMethod::Range(Some(_)) => Some(0),
            MatchMethod::Range(None) => compared.first_range(),
            MatchMethod::Dominance => compared.most_selective_column(&selectivity),
            _ => None,
        };
        let (bounds, tests) = compared.bounds_and_tests(sort_key, &selectivity);
        let sort_key = sort_key.map(|key| &compared.columns[key].keys);
        let build = device.sort(batch.rows(), sort_key, groups.ids(), &compared.keys())?;
        let mut key_columns = Vec::with_capacity(compared.columns.len());
        for (i, column) in compared.columns.into_iter().enumerate() {
            let tested = tests.iter().any(|test| test.key == i);
            key_columns.push(KeyColumn {
                domain: column.domain,
                zoned: tested
                    .then(|| device.zone_keys(&column.keys, &build))
                    .transpose()?,
                keys: None,
            });
        }
        Ok(Self {
            key_columns,
            bounds,
            partners: spec.partners().copied(),
            tests,
            ..Self::new(groups.order(build), batch.rows())
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

/// The sets of the lists of which values come out, if no predicate on sets finds the matches.
fn compared_sets(
    device: &dyn Device,
    spec: &MatchSpec,
    batch: &DeviceBatch,
    probe: &DeviceBatch,
) -> Result<Option<SetIndex>> {
    let lists = spec.compared_list(spec.build);
    let lists = lists.zip(spec.compared_list(spec.build.other()));
    let sets = lists.map(|(of_build, of_probe)| {
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
    sets.transpose()
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
