//! [`FusedProgram`]: filters, projections and the folds of an aggregation as one program over the columns of a scan.

use arrow::datatypes::DataType;

use crate::ir::fold::Fold;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};
use crate::spec::aggregate::{GroupSpec, GroupState};
use crate::spec::rows::{ExpressionColumn, FilterSpec, Projected, ProjectionSpec, RowExpressions};

/// The most registers of a composed program.
const MOST_REGISTERS: u8 = 250;

/// A program over the columns of a scan, whose registers have what an aggregation folds.
#[derive(Debug)]
pub(crate) struct FusedProgram {
    /// Without outputs.
    pub rows: RowProgram,
    /// Registers of the filters' predicates, the lowest filter's first.
    pub predicates: Vec<u8>,
    /// The lowest filter's predicate, where it is over the columns of the scan as they are.
    pub lowest: Option<RowProgram>,
    /// For each group key, the column of the scan.
    pub keys: Vec<usize>,
    /// For each fold of each aggregate, in order.
    pub folds: Vec<FusedFold>,
}

/// A fold of a register; of rows if there is none.
#[derive(Debug, Clone)]
pub(crate) struct FusedFold {
    pub fold: Fold,
    pub argument: Option<Argument>,
}

/// A register with its type.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub register: u8,
    pub data_type: DataType,
    pub kind: Kind,
}

/// Where a column is.
#[derive(Debug, Clone)]
enum Place {
    /// A column of the scan.
    Scan(usize),
    Register(u8, DataType),
    /// In no register, such as text that is computed.
    Nowhere,
}

/// A program in the making.
pub(crate) struct Composer {
    rows: RowProgram,
    predicates: Vec<u8>,
    lowest: Option<RowProgram>,
    registers: u8,
    /// The columns of the node that is composed next.
    places: Vec<Place>,
    types: Vec<DataType>,
}

impl Composer {
    /// Of a scan with columns of these types.
    pub(crate) fn new(types: Vec<DataType>) -> Self {
        Self {
            rows: RowProgram {
                instructions: vec![],
                columns: vec![],
                outputs: vec![],
            },
            predicates: vec![],
            lowest: None,
            registers: 0,
            places: (0..types.len()).map(Place::Scan).collect(),
            types,
        }
    }

    /// `None` where the filter cannot be composed.
    pub(crate) fn filter(&mut self, spec: &FilterSpec) -> Option<()> {
        if self.predicates.is_empty() {
            self.lowest = self.over_scan(&spec.predicate.program);
        }
        let outputs = self.append(&spec.predicate)?;
        let [Some(predicate)] = outputs[..] else {
            return None;
        };
        self.predicates.push(predicate);
        let places = spec.columns.iter();
        let places = places.map(|column| self.places.get(*column).cloned());
        self.places = places.collect::<Option<_>>()?;
        Some(())
    }

    /// A program over the current columns as one over the columns of the scan; `None` where these are not the same.
    fn over_scan(&self, program: &RowProgram) -> Option<RowProgram> {
        let read = program.columns.iter().map(|source| match source {
            RowSource::Column(column) => match self.places.get(*column)? {
                Place::Scan(_) => Some(()),
                _ => None,
            },
            // Nothing is known of tests.
            RowSource::Test(_) => Some(()),
        });
        read.collect::<Option<()>>()?;
        let place = |column: usize| match self.places.get(column) {
            Some(Place::Scan(column)) => *column,
            _ => column,
        };
        Some(program.over(&place))
    }

    /// `None` where the projection cannot be composed.
    pub(crate) fn projection(&mut self, spec: &ProjectionSpec) -> Option<()> {
        let computed = match &spec.computed {
            None => vec![],
            Some(computed) => {
                let outputs = self.append(computed)?;
                let columns = computed.columns.iter().map(|column| match column {
                    ExpressionColumn::Program(at) => {
                        let register = outputs.get(*at).copied().flatten();
                        let data_type = computed.program.outputs.get(*at).cloned();
                        let place = register.zip(data_type);
                        place.map_or(Place::Nowhere, |(r, of)| Place::Register(r, of))
                    }
                    _ => Place::Nowhere,
                });
                columns.collect()
            }
        };
        let places = spec.columns.iter().map(|column| match column {
            Projected::Input(i) => self.places.get(*i).cloned(),
            Projected::Computed(i) => computed.get(*i).cloned(),
        });
        self.places = places.collect::<Option<_>>()?;
        Some(())
    }

    /// The program of an aggregation above; `None` where it cannot be composed.
    pub(crate) fn aggregation(mut self, spec: &GroupSpec) -> Option<FusedProgram> {
        let one_set = match spec.sets.as_slice() {
            [set] => set.id.is_none() && !set.nulls.contains(&true),
            _ => false,
        };
        // A strategy that was asked for groups the rows. Expressions of the aggregation are columns of the projection below it.
        if spec.grouping.strategy.is_some() || !one_set || self.places.len() != spec.input.columns()
        {
            return None;
        }
        let keys = spec.keys.iter().map(|key| match self.places.get(*key)? {
            Place::Scan(column) => Some(*column),
            _ => None,
        });
        let keys = keys.collect::<Option<Vec<_>>>()?;
        let mut folds = vec![];
        for aggregate in &spec.aggregates {
            let of = aggregate.function.folds();
            let reads_rows = aggregate.merges.is_none();
            if aggregate.state != GroupState::Folds || of.is_empty() || !reads_rows {
                return None;
            }
            let argument = match aggregate.argument {
                None => None,
                Some(column) => Some(self.argument(column)?),
            };
            for fold in of {
                let has_word = match (fold, argument.as_ref().map(|argument| argument.kind)) {
                    (Fold::Count, _) => true,
                    (Fold::Sum, Some(kind)) => {
                        matches!(kind, Kind::I64 | Kind::U64 | Kind::Decimal)
                    }
                    (Fold::Min | Fold::Max, Some(kind)) => {
                        !kind.is_float() && !matches!(kind, Kind::Bool | Kind::Decimal)
                    }
                    _ => false,
                };
                if !has_word {
                    return None;
                }
                folds.push(FusedFold {
                    fold: *fold,
                    argument: argument.clone(),
                });
            }
        }
        Some(FusedProgram {
            rows: self.rows,
            predicates: self.predicates,
            lowest: self.lowest,
            keys,
            folds,
        })
    }

    fn argument(&mut self, column: usize) -> Option<Argument> {
        let (register, data_type) = match self.places.get(column)?.clone() {
            Place::Scan(column) => {
                let data_type = self.types.get(column)?.clone();
                let kind = Kind::of(&data_type)?;
                (self.load(RowSource::Column(column), kind)?, data_type)
            }
            Place::Register(register, data_type) => (register, data_type),
            Place::Nowhere => return None,
        };
        let kind = Kind::of(&data_type)?;
        Some(Argument {
            register,
            data_type,
            kind,
        })
    }

    /// The register that has a column of the scan, or what a test of one gives.
    fn load(&mut self, source: RowSource, kind: Kind) -> Option<u8> {
        let known = self.rows.columns.iter().position(|known| *known == source);
        let column = known.unwrap_or_else(|| {
            self.rows.columns.push(source);
            self.rows.columns.len() - 1
        });
        let column = u16::try_from(column).ok()?;
        let mut loads = self.rows.instructions.iter();
        if let Some(load) = loads.find(|i| i.op == Op::Load && i.column == column) {
            return (load.kind == kind).then_some(load.out);
        }
        let out = self.register()?;
        self.rows.instructions.push(Instruction {
            column,
            ..Instruction::of(Op::Load, kind, [out, 0, 0])
        });
        Some(out)
    }

    /// A new register: each is set once.
    fn register(&mut self) -> Option<u8> {
        let register = self.registers;
        self.registers = (register < MOST_REGISTERS).then_some(register + 1)?;
        Some(register)
    }

    /// Appends the program of some expressions over the current columns. Returns the registers of its outputs.
    fn append(&mut self, of: &RowExpressions) -> Option<Vec<Option<u8>>> {
        if !of.subqueries.is_empty() || !of.distinct.is_empty() {
            return None;
        }
        let program = &of.program;
        // Where the registers of the program are.
        let mut registers = vec![0; program.registers()];
        let mut outputs = vec![None; program.outputs.len()];
        for instruction in &program.instructions {
            let at = |register: u8| registers.get(usize::from(register)).copied();
            let made = match instruction.op {
                Op::Store => {
                    *outputs.get_mut(usize::from(instruction.column))? = Some(at(instruction.a)?);
                    continue;
                }
                Op::Load => {
                    let source = program.columns.get(usize::from(instruction.column))?;
                    self.loaded(source, instruction.kind)?
                }
                op => {
                    let mut moved = *instruction;
                    let operands = operands(op);
                    for register in [&mut moved.a, &mut moved.b, &mut moved.c]
                        .into_iter()
                        .take(operands)
                    {
                        *register = at(*register)?;
                    }
                    moved.out = self.register()?;
                    self.rows.instructions.push(moved);
                    moved.out
                }
            };
            *registers.get_mut(usize::from(instruction.out))? = made;
        }
        Some(outputs)
    }

    /// The register of what a load of the next program reads.
    fn loaded(&mut self, source: &RowSource, kind: Kind) -> Option<u8> {
        let scanned = |composer: &Self, column: usize| match composer.places.get(column)? {
            Place::Scan(column) => Some(*column),
            _ => None,
        };
        match source {
            RowSource::Column(column) => match self.places.get(*column)? {
                Place::Scan(column) => self.load(RowSource::Column(*column), kind),
                Place::Register(register, _) => Some(*register),
                Place::Nowhere => None,
            },
            RowSource::Test(test) => {
                let tested = scanned(self, test.column)?;
                let other = match test.other() {
                    None => None,
                    Some(other) => Some((other, scanned(self, other)?)),
                };
                let place = |column: usize| match other {
                    Some((from, to)) if from == column => to,
                    _ => tested,
                };
                self.load(RowSource::Test(test.over(&place)), kind)
            }
        }
    }
}

/// The registers that an instruction reads: `a`, `b` and `c` in this order.
fn operands(op: Op) -> usize {
    match op {
        Op::Load | Op::LoadRight | Op::Constant => 0,
        Op::Neg
        | Op::Not
        | Op::IsNull
        | Op::IsNotNull
        | Op::Cast
        | Op::Scale
        | Op::Round
        | Op::Floor
        | Op::Part
        | Op::Store
        | Op::Truncate
        | Op::ToFloat
        | Op::FromFloat => 1,
        Op::Select => 3,
        _ => 2,
    }
}
