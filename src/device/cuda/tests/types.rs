//! What each primitive does with each type: a table, so that a type which silently takes another path is a visible difference.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::device::cuda::columns::transfer::DOWNLOADS;
use crate::device::cuda::tests::*;
use crate::device::data::key_bitmap::are_addresses;
use crate::device::primitives::keys::SortKey;
use crate::ir::fold::Fold;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::{RowProgram, RowSource};
use crate::ir::set_predicate::SetPredicate;
use crate::ir::side::Side;
use crate::ir::strategies::Grouping;

/// Rows of each column, some of them NULL.
const ROWS: usize = 40;

/// The table as it is in the sources.
const TABLE: &str = include_str!("types.txt");

type Primitive = fn(&dyn Device, &ArrayRef, &Column) -> Result<()>;

const PRIMITIVES: [(&str, Primitive); 18] = [
    ("gather", |device, _, column| {
        let rows = device.sequence(3, 9)?;
        device.gather(column, &rows).map(drop)
    }),
    ("concat", |device, _, column| {
        device.concat(&[column, column]).map(drop)
    }),
    ("keep", |device, _, column| {
        let flags = device.flags(ROWS)?;
        let flags = device.flag_column(&flags, 0, ROWS, true)?;
        device.keep(&flags, &[column]).map(drop)
    }),
    ("validity", |device, _, column| {
        device.validity(column).map(drop)
    }),
    ("order", |device, _, column| {
        device.order_keys(column).map(drop)
    }),
    ("group", |device, _, column| {
        device.group_keys(&[column], false).map(drop)
    }),
    ("sort", |device, _, column| {
        let options = Default::default();
        device
            .sort_rows(ROWS, &[SortKey { column, options }], None)
            .map(drop)
    }),
    ("equi", |device, _, column| {
        device.equi_index(&[column], false, None).map(drop)
    }),
    ("bits", |device, array, column| {
        if !are_addresses(array.data_type()) {
            return Err(declined());
        }
        device.key_range(&[column]).map(drop)
    }),
    ("keys", |device, _, column| {
        device
            .aggregate(ROWS, &[column], &[], Grouping::AUTO)
            .map(drop)
    }),
    ("count", |device, _, column| {
        fold(device, Fold::Count, column)
    }),
    ("sum", |device, _, column| fold(device, Fold::Sum, column)),
    ("min", |device, _, column| fold(device, Fold::Min, column)),
    ("and", |device, _, column| fold(device, Fold::And, column)),
    ("mean", |device, _, column| fold(device, Fold::Mean, column)),
    ("total", |device, _, column| device.sum(column).map(drop)),
    ("map", |device, array, column| {
        let Some(kind) = Kind::of(array.data_type()) else {
            return Err(declined());
        };
        let load = Instruction::of(Op::Load, kind, [0, 0, 0]);
        let store = Instruction::of(Op::Store, kind, [0, 0, 0]);
        let program = RowProgram {
            instructions: vec![load, store],
            columns: vec![RowSource::Column(0)],
            outputs: vec![array.data_type().clone()],
        };
        device.map(ROWS, &program, &[column]).map(drop)
    }),
    ("sets", |device, array, _| {
        let field = Arc::new(Field::new("item", array.data_type().clone(), true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([ROWS / 4; 4]);
        let lists: ArrayRef = Arc::new(ListArray::try_new(field, offsets, array.clone(), None)?);
        let lists = device.upload(&[lists])?;
        let test = SetPredicate::Overlap(2).seen_from(Side::Left);
        let index = device.set_index(&lists, None, &[], test, None, &lists)?;
        device.set_search(&index, &lists, None, &[]).map(drop)
    }),
];

fn fold(device: &dyn Device, fold: Fold, column: &Column) -> Result<()> {
    let key = device.row_numbers(ROWS)?;
    device
        .aggregate(ROWS, &[&key], &[(fold, Some(column))], Grouping::AUTO)
        .map(drop)
}

fn declined() -> BowtieError {
    BowtieError::Internal("the type is not supported".into())
}

/// A column of each type.
fn columns_of_types() -> Vec<ArrayRef> {
    use DataType::*;
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..ROWS as i32).map(|i| (i % 7 != 3).then_some(1 + i % 11)),
    ));
    let (key, text) = (Box::new(Int32), Box::new(Utf8));
    let mut types = vec![
        Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64,
    ];
    types.extend([
        Boolean,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Second, Some("UTC".into())),
        Duration(TimeUnit::Millisecond),
        Decimal32(7, 2),
        Decimal64(15, 2),
        Decimal128(30, 2),
        Decimal256(60, 2),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        Dictionary(key.clone(), text),
        Dictionary(Box::new(Int8), Box::new(Int64)),
        Dictionary(key, Box::new(Float64)),
    ]);
    let as_type = |data_type: &DataType| -> ArrayRef {
        let from = match data_type {
            Binary | LargeBinary | BinaryView => cast(&numbers, &Utf8).unwrap(),
            Date64 | Time64(_) | Timestamp(..) | Duration(_) => cast(&numbers, &Int64).unwrap(),
            _ => numbers.clone(),
        };
        cast(&from, data_type).unwrap()
    };
    let mut columns: Vec<ArrayRef> = types.iter().map(as_type).collect();
    let ints = numbers.as_primitive::<Int32Type>();
    columns.push(Arc::new(ints.unary::<_, IntervalYearMonthType>(|n| n)));
    columns.push(Arc::new(
        ints.unary::<_, IntervalDayTimeType>(|n| IntervalDayTime::new(n, n)),
    ));
    columns.push(Arc::new(ints.unary::<_, IntervalMonthDayNanoType>(|n| {
        IntervalMonthDayNano::new(n, n, n.into())
    })));
    let bytes = ints.iter().map(|n| n.map(|n| [n as u8; 5]));
    columns.push(Arc::new(
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 5).unwrap(),
    ));
    let lists = ints.iter().map(|n| n.map(|n| vec![Some(n), None]));
    columns.push(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
        lists,
    )));
    let field = Arc::new(Field::new("n", Int32, true));
    columns.push(Arc::new(StructArray::from(vec![(field, numbers.clone())])));
    columns.push(new_null_array(&Null, ROWS));
    columns
}

/// `gpu`: by kernels. `cpu`: by the CPU backend, with a GPU too. `-`: by none.
fn outcome(
    (host, gpu): (&HostDevice, &CudaDevice),
    primitive: Primitive,
    array: &ArrayRef,
    is_stored: bool,
) -> &'static str {
    let run = |device: &dyn Device| -> bool {
        let column = device.upload(from_ref(array)).unwrap();
        DOWNLOADS.set(0);
        let done = catch_unwind(AssertUnwindSafe(|| primitive(device, array, &column)));
        done.unwrap_or_else(|_| panic!("a primitive panics on {}", array.data_type()))
            .is_ok()
    };
    // Nobody asks for what the CPU backend, the specification, does not do.
    if !run(host) {
        return "-";
    }
    assert!(run(gpu), "a GPU lacks a primitive of {}", array.data_type());
    match DOWNLOADS.get() {
        0 if is_stored => "gpu",
        _ => "cpu",
    }
}

pub(crate) fn table(host: &HostDevice, gpu: &CudaDevice) -> String {
    let mut table = format!("{:32}{:8}", "", "upload");
    for (name, _) in PRIMITIVES {
        write!(table, "{name:9}").unwrap();
    }
    for array in columns_of_types() {
        let column = gpu.upload(from_ref(&array)).unwrap();
        let is_stored = column.stored().is_some();
        let stored = if is_stored { "gpu" } else { "cpu" };
        write!(table, "\n{:32}{stored:8}", array.data_type().to_string()).unwrap();
        for (_, primitive) in PRIMITIVES {
            let outcome = outcome((host, gpu), primitive, &array, is_stored);
            write!(table, "{outcome:9}").unwrap();
        }
    }
    let lines = table.lines().map(str::trim_end);
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// Compares the table with `types.txt`, which is to be replaced by the printed one if the difference is meant.
pub(crate) fn same_table(host: &HostDevice, gpu: &CudaDevice) {
    let table = table(host, gpu);
    assert!(table == TABLE, "tests/types.txt differs:\n{table}");
}
