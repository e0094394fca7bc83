//! A filter in one pass: rows are tested, and those that pass are compacted immediately.
//!
//! The grid is persistent: each block loops over tiles of rows. A turn of the loop handles three of them:
//!
//! ```text
//! 1  the current tile: the predicate of its columns, which were loaded in the previous turn, the bits of its keys
//!    (bit_test.rs), or runs (run_heads.rs); its passing rows are counted and the count is published; the units of
//!    other columns that have such rows are loaded                                         compaction.rs, look_back.rs
//! 2  its rows in registers are compacted into shared memory                                              staging.rs
//! 3  the next tile: the predicate's columns are loaded                                                     tiles.rs
//! 4  the previous tile: counts published since the block's last one are added up, and its rows are written to their
//!    positions, in whole lines                                                               look_back.rs, staging.rs
//! 5  the current tile: its other columns have arrived, and are compacted, too                             staging.rs
//! ```
//!
//! Each value is read once, and each kept value is written once. A tile is written one turn after it was counted. By
//! then most tiles before it have been counted, and while a block waits for the others its loads are in flight. The
//! position of a tile is the sum of the counts before it (one-pass prefix sums: Merrill & Garland 2016). As a block
//! knows the sum up to its own last tile, no block publishes prefix sums, and none waits for another block's sum.

use crate::device::cuda::codegen::columns::Units;
use crate::device::cuda::codegen::filter::compaction::Places;
use crate::device::cuda::codegen::filter::look_back::PrefixSum;
use crate::device::cuda::codegen::filter::run_heads::Runs;
use crate::device::cuda::codegen::filter::staging::{Column, Values, stage, write};
use crate::device::cuda::codegen::filter::tiles::{Size, Tiles};
use crate::device::cuda::codegen::filter::{bit_test, look_back, tiles};
use crate::device::cuda::codegen::layout::Place;
use crate::device::cuda::codegen::ptx::{Predicate, Text, Word};
use crate::device::cuda::codegen::shape::Shape;
use crate::device::cuda::codegen::translate::{Machine, loads, widths};
use crate::device::cuda::runtime::kernel_cache::form::{KeyTest, Moved, Selection, Test};
use crate::device::cuda::runtime::kernel_cache::generated::{Generated, KERNEL, Parameter};
use crate::ir::program::{Kind, Op};

impl Moved {
    /// The kind that its values are moved as.
    fn kind(self) -> Kind {
        match self.bytes {
            1 => Kind::U8,
            2 => Kind::U16,
            4 => Kind::U32,
            8 => Kind::U64,
            _ => Kind::Decimal,
        }
    }
}

/// The most bytes of a row in registers and in shared memory.
const MOST_BYTES: u32 = 64;

/// Generates a kernel for a selection. `None` if `kernels/expr/map.cu` or `kernels/semi/key_bits.cu` has to run, with
/// `kernels/columns/rows_select.cuh`. Its counts must be zeroed: `HEADER` bytes, and 4 for each tile.
pub(crate) fn generate(shape: &Shape<'_>, selection: &Selection, size: Size) -> Option<Generated> {
    let Selection { moved, test } = selection;
    let (loaded, widest) = widths(shape)?;
    let loaded = loaded
        + match test {
            Test::Bits(_) => bit_test::BYTES,
            Test::Program | Test::Run => 0,
        };
    let loads = loads(shape.program);
    let is_loaded = |moved: &Moved| moved.loaded.is_some_and(|at| loads.contains(&at));
    let others = moved.iter().filter(|moved| !is_loaded(moved));
    let all = loaded + others.map(|moved| moved.bytes).sum::<u32>();
    // A column may be moved several times.
    let row = moved.iter().map(|moved| moved.bytes).sum::<u32>();
    if all.max(row) > MOST_BYTES {
        return None;
    }
    let widest = moved.iter().map(|moved| moved.bytes).fold(widest, u32::max);
    let layout = tiles::layout(size, widest, all, row);

    let mut text = Text::default();
    let rows = text.rows();
    let mut tiles = Tiles::new(&mut text, layout, rows, row);
    let known = PrefixSum::new(&mut text);
    let first = Place::new(&mut text, layout, tiles.tile, rows);
    let parameters = vec![Parameter::Rows, Parameter::Counts];
    let mut machine = Machine::new(shape, text, first.clone(), parameters)?;
    machine.load(&first);
    let runs = match test {
        Test::Run => Some(Runs::new(&mut machine)?),
        Test::Program | Test::Bits(_) => None,
    };
    if let Some(runs) = &runs {
        runs.load(&mut machine.text, &first);
    }

    tiles.turn(&mut machine.text);
    let place = first.in_tile(&mut machine.text, tiles.tile);
    machine.take(place);
    let passing = match (test, &runs) {
        (_, Some(runs)) => of_runs(&mut machine, runs)?,
        (Test::Bits(keys), None) => of_keys(&mut machine, *keys)?,
        (_, None) => of_program(&mut machine)?,
    };
    let places = Places::new(&mut machine, &tiles, passing);
    let next = tiles.next(&mut machine.text);
    look_back::publish(&mut machine, &tiles, places.rows);
    let columns = columns(&mut machine, passing, moved);
    let (others, own): (Vec<Column>, Vec<Column>) = columns.into_iter().partition(Column::arrives);
    stage(&mut machine, &tiles, &places, &own);
    let place = first.in_tile(&mut machine.text, next);
    machine.load(&place);
    if let Some(runs) = &runs {
        runs.load(&mut machine.text, &place);
    }
    tiles.write(&mut machine.text);
    let before = known.rows_before(&mut machine, &tiles);
    write(&mut machine, &tiles, before, &own);
    write(&mut machine, &tiles, before, &others);
    tiles.written(&mut machine.text);
    stage(&mut machine, &tiles, &places, &others);
    tiles.advance(&mut machine.text, next, places.rows);

    let shared = tiles.shared();
    let (text, parameters) = machine.done();
    Some(Generated {
        text: text.module(KERNEL, parameters.len(), layout.threads),
        parameters,
        layout,
        persistent_shared_bytes: Some(shared),
        nullable: vec![],
    })
}

/// The rows of the current tile that pass by the bits of their keys.
fn of_keys(machine: &mut Machine<'_>, keys: KeyTest) -> Option<Word> {
    let columns = machine.program().columns.len();
    let passing = keys.passing(machine, columns)?;
    match machine.text.is_too_long() {
        true => None,
        false => machine.inside(passing),
    }
}

/// The rows of the current tile that begin runs. Rows that descend are faults.
fn of_runs(machine: &mut Machine<'_>, runs: &Runs) -> Option<Word> {
    let (begins, descends) = runs.passing(machine)?;
    machine.add_faulty_rows(descends);
    machine.inside(begins)
}

/// The rows of the current tile that pass by the program.
fn of_program(machine: &mut Machine<'_>) -> Option<Word> {
    let mut passing = None;
    for (at, instruction) in machine.program().instructions.iter().enumerate() {
        match instruction.op {
            Op::Store => passing = Some(machine.passing(instruction)?),
            _ => machine.run(at, instruction)?,
        }
        if machine.text.is_too_long() {
            return None;
        }
    }
    passing
}

/// The moved columns. Loads of columns outside the program are issued here, for units with a passing row.
fn columns(machine: &mut Machine<'_>, passing: Word, moved: &[Moved]) -> Vec<Column> {
    let layout = machine.place.layout;
    let wanted = (0..layout.groups).map(|group| {
        let bits = ((1u32 << layout.unit) - 1) << (group * layout.unit);
        let some = machine.text.word("and.b32", &[&passing, &bits]);
        machine.text.predicate("setp.ne.u32", &[&some, &0])
    });
    let wanted: Vec<Predicate> = wanted.collect();
    let mut columns = vec![];
    let mut from = tiles::SCRATCH;
    for (at, column) in moved.iter().enumerate() {
        let loaded = column.loaded.and_then(|at| machine.loaded(at));
        let values = match loaded.map(|register| register.rows.clone()) {
            Some(rows) => Values::Loaded(rows),
            None => {
                let from = machine.pointer(Parameter::Moved(at));
                let Machine { text, place, .. } = machine;
                let units = Units::new(text, layout, column.kind());
                units.load(text, place, from, Some(&wanted));
                Values::InFlight(units)
            }
        };
        columns.push(Column {
            at,
            bytes: column.bytes,
            from,
            values,
        });
        // The next column begins at a whole vector: tiles have a multiple of 16 rows.
        from += layout.tile() * column.bytes;
    }
    columns
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;
    use crate::device::cuda::codegen::filter::key_bitmap::loads as loads_of;
    use crate::device::cuda::codegen::filter::tiles::sizes;
    use crate::ir::program::Instruction;
    use crate::ir::row_program::{RowProgram, RowSource};

    const INT: Kind = Kind::I32;

    #[test]
    fn a_row_that_is_moved_has_so_many_bytes_however_often_a_column_is() {
        let step = |op, [out, a, b]: [u8; 3]| Instruction {
            op,
            kind: INT,
            out,
            a,
            b,
            c: 0,
            column: 0,
            constant: 0,
            from: INT,
        };
        let program = RowProgram {
            instructions: vec![
                step(Op::Load, [0, 0, 0]),
                step(Op::Constant, [1, 0, 0]),
                step(Op::Lt, [2, 0, 1]),
                step(Op::Store, [0, 2, 0]),
            ],
            columns: vec![RowSource::Column(0)],
            outputs: vec![DataType::Boolean],
        };
        let made = |times: usize, loaded| {
            let shape = Shape {
                program: &program,
                columns: &[(INT, false)],
            };
            let moved = vec![Moved { bytes: 4, loaded }; times];
            generate(
                &shape,
                &Selection {
                    moved,
                    test: Test::Program,
                },
                sizes(227 << 10)[0],
            )
        };
        for loaded in [Some(0), None] {
            for times in 0..=15 {
                let made = made(times, loaded).unwrap();
                let kept = |parameter: &&Parameter| matches!(parameter, Parameter::Kept(_));
                assert_eq!(made.parameters.iter().filter(kept).count(), times);
                assert!(made.persistent_shared_bytes.is_some());
            }
            assert!(made(17, loaded).is_none());
        }
    }

    /// A kernel with some key columns, the first of which is moved, and a moved column of 8 bytes.
    fn of_keys(columns: &[(Kind, bool)], test: KeyTest) -> Generated {
        let program = loads_of(columns);
        let shape = Shape {
            program: &program,
            columns,
        };
        let moved = [(4, Some(0)), (8, None)].map(|(bytes, loaded)| Moved { bytes, loaded });
        let selection = Selection {
            moved: moved.to_vec(),
            test: Test::Bits(test),
        };
        generate(&shape, &selection, sizes(227 << 10)[0]).unwrap()
    }

    #[test]
    fn keys_of_several_columns_are_digits_of_a_place() {
        let kinds = [Kind::I32, Kind::Bool, Kind::U8, Kind::I64];
        let nullable = kinds.map(|kind| (kind, true));
        for null_equal in [false, true] {
            for columns in 1..=kinds.len() {
                let test = KeyTest {
                    set: true,
                    null_equal,
                };
                let made = of_keys(&nullable[..columns], test);
                let has = |parameter| made.parameters.contains(&parameter);
                for (at, kind) in kinds[..columns].iter().enumerate() {
                    let is_bool = *kind == Kind::Bool;
                    assert_eq!(has(Parameter::Least(at)), !is_bool);
                    assert_eq!(has(Parameter::Digits(at)), !is_bool);
                    assert_eq!(has(Parameter::NullDigit(at)), null_equal);
                    assert_eq!(has(Parameter::Stride(at)), at > 0);
                }
            }
        }
    }

    #[test]
    fn a_key_of_one_column_takes_eight_rows_a_thread() {
        let test = |set| KeyTest {
            set,
            null_equal: true,
        };
        let made = |set| {
            let (program, columns) = (loads_of(&[(INT, false)]), [(INT, false)]);
            let shape = Shape {
                program: &program,
                columns: &columns,
            };
            let moved = vec![Moved {
                bytes: 4,
                loaded: Some(0),
            }];
            let test = Test::Bits(test(set));
            generate(&shape, &Selection { moved, test }, sizes(227 << 10)[0]).unwrap()
        };
        assert_eq!(made(true).layout.rows(), 8);
        assert_ne!(made(true).text, made(false).text);
    }
}
