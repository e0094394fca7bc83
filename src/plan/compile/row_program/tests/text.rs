//! Tests of text of all types, and characters of it, beside DataFusion's own evaluation.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, LikeExpr, NotExpr, in_list,
    lit,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::device::budget::Budget;
use crate::device::host::device::HostDevice;
use crate::plan::compile::row_program::tests::generator::function;
use crate::plan::compile::row_program::tests::{Expr, made};

/// Few characters, of one to four bytes, so that patterns are found.
const CHARACTERS: [char; 10] = ['a', 'b', 'a', 'b', '%', '_', '\\', '\n', 'é', '😀'];

fn types() -> Vec<DataType> {
    use DataType::*;
    let dictionary = |keys, values| Dictionary(Box::new(keys), Box::new(values));
    vec![
        Utf8,
        LargeUtf8,
        Utf8View,
        dictionary(Int32, Utf8),
        dictionary(UInt16, LargeUtf8),
        dictionary(Int16, Utf8View),
        Binary,
        LargeBinary,
        BinaryView,
    ]
}

fn is_binary(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Binary | LargeBinary | BinaryView)
}

fn some_text(rng: &mut StdRng) -> String {
    let length = match rng.random_range(0..40) {
        0 => 3000,
        1..10 => rng.random_range(0..3),
        10..30 => rng.random_range(0..14),
        _ => rng.random_range(0..40),
    };
    (0..length)
        .map(|_| CHARACTERS.choose(rng).unwrap())
        .collect()
}

/// Two columns of each type; of text that comes up again.
fn table(rng: &mut StdRng, rows: usize) -> RecordBatch {
    let known: Vec<String> = (0..30).map(|_| some_text(rng)).collect();
    let (mut fields, mut columns) = (vec![], vec![]);
    for data_type in types() {
        for i in 0..2 {
            let values = (0..rows).map(|_| {
                let value = match rng.random_bool(0.5) {
                    true => known.choose(rng).unwrap().clone(),
                    false => some_text(rng),
                };
                rng.random_bool(0.85).then_some(value)
            });
            let values: ArrayRef = Arc::new(StringArray::from_iter(values));
            // A slice, so that offsets do not begin at 0.
            let values = cast(&values, &data_type).unwrap().slice(1, rows - 1);
            fields.push(Field::new(
                format!("{data_type}{i}"),
                data_type.clone(),
                true,
            ));
            columns.push(values);
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

struct Writer<'a> {
    rng: &'a mut StdRng,
    batch: &'a RecordBatch,
}

impl Writer<'_> {
    /// A column, its type, and a text that it may have.
    fn column(&mut self) -> (Expr, DataType, String) {
        let at = self.rng.random_range(0..self.batch.num_columns());
        let schema = self.batch.schema();
        let field = schema.field(at);
        let column: Expr = Arc::new(Column::new(field.name(), at));
        let plain = cast(self.batch.column(at), &DataType::Utf8).unwrap();
        let plain = plain.as_string::<i32>();
        let some = plain.value(self.rng.random_range(0..plain.len()));
        (column, field.data_type().clone(), some.to_string())
    }

    /// A part of a text, or another one.
    fn part(&mut self, of: &str) -> String {
        if self.rng.random_bool(0.2) {
            return some_text(self.rng);
        }
        let characters: Vec<char> = of.chars().collect();
        let from = self.rng.random_range(0..=characters.len());
        let to = self.rng.random_range(from..=characters.len());
        characters[from..to.min(from + 20)].iter().collect()
    }

    fn pattern(&mut self, of: &str) -> String {
        let mut pattern = String::new();
        for _ in 0..self.rng.random_range(0..4) {
            let part = self.part(of);
            let part: String = part.chars().take(5).collect();
            let escaped = match self.rng.random_bool(0.7) {
                true => part
                    .replace('\\', "\\\\")
                    .replace('%', "\\%")
                    .replace('_', "\\_"),
                false => part,
            };
            for piece in ["%", "_", &escaped, "%"] {
                if self.rng.random_bool(0.6) {
                    pattern += piece;
                }
            }
        }
        pattern
    }

    fn constant(&self, data_type: &DataType, text: &str) -> Expr {
        let value = ScalarValue::from(text).cast_to(data_type).unwrap();
        lit(value)
    }

    /// Text without a dictionary, as functions take it.
    fn plain(&mut self) -> (Expr, DataType, String) {
        loop {
            let (column, data_type, some) = self.column();
            match &data_type {
                DataType::Dictionary(_, values) => {
                    let to = values.as_ref().clone();
                    let column = Arc::new(CastExpr::new(column, to.clone(), None));
                    return (column, to, some);
                }
                plain if !is_binary(plain) => return (column, data_type, some),
                _ => {}
            }
        }
    }

    fn slice(&mut self) -> (Expr, DataType, String) {
        let (text, data_type, some) = self.plain();
        let schema = self.batch.schema();
        let (start, count) = (self.rng.random_range(-3..9), self.rng.random_range(0..9));
        let (start, count) = (i64::from(start), i64::from(count));
        let sliced = match self.rng.random_range(0..3) {
            0 => function(unicode::substr(), vec![text, lit(start)], &schema),
            1 => function(
                unicode::substr(),
                vec![text, lit(start), lit(count)],
                &schema,
            ),
            _ => function(unicode::left(), vec![text, lit(count)], &schema),
        };
        let some = some.chars().skip(start.max(1) as usize - 1);
        (sliced, data_type, some.take(count as usize).collect())
    }

    fn test(&mut self) -> Expr {
        use Operator::*;
        let kind = self.rng.random_range(0..8);
        let (text, data_type, some) = match (self.rng.random_range(0..3), kind) {
            (0, _) => self.slice(),
            (_, 2..=5) => self.plain(),
            _ => self.column(),
        };
        let schema = self.batch.schema();
        match kind {
            0 => {
                let some = match self.rng.random_bool(0.5) {
                    true => some,
                    false => self.part(&some),
                };
                let ops = [
                    Eq,
                    NotEq,
                    Lt,
                    LtEq,
                    Gt,
                    GtEq,
                    IsDistinctFrom,
                    IsNotDistinctFrom,
                ];
                let (op, constant) = (
                    *ops.choose(self.rng).unwrap(),
                    self.constant(&data_type, &some),
                );
                match self.rng.random_bool(0.7) {
                    true => Arc::new(BinaryExpr::new(text, op, constant)),
                    false => Arc::new(BinaryExpr::new(constant, op, text)),
                }
            }
            1 => {
                let items = (0..self.rng.random_range(1..20)).map(|_| {
                    let item = self.part(&some);
                    self.constant(&data_type, &item)
                });
                let mut items: Vec<Expr> = items.collect();
                items.push(self.constant(&data_type, &some));
                if self.rng.random_bool(0.2) {
                    items.push(lit(ScalarValue::try_from(&data_type).unwrap()));
                }
                let negated = self.rng.random_bool(0.5);
                in_list(text, items, &negated, &schema).unwrap()
            }
            2 | 3 => {
                let pattern = self.pattern(&some);
                let pattern = self.constant(&data_type, &pattern);
                let negated = self.rng.random_bool(0.5);
                Arc::new(LikeExpr::new(negated, false, text, pattern))
            }
            4 => {
                let part = self.part(&some);
                let part = self.constant(&data_type, &part);
                let of = [
                    string::starts_with(),
                    string::ends_with(),
                    string::contains(),
                ];
                let of = Arc::clone(of.choose(self.rng).unwrap());
                function(of, vec![text, part], &schema)
            }
            5 => {
                let part = self.part(&some);
                let part = self.constant(&data_type, &part);
                let position = function(unicode::strpos(), vec![text, part], &schema);
                let position: Expr = Arc::new(CastExpr::new(position, DataType::Int64, None));
                let of = [
                    (Gt, 0i64),
                    (Eq, 0),
                    (GtEq, 1),
                    (Lt, 1),
                    (NotEq, 0),
                    (LtEq, 0),
                ];
                let (op, least) = *of.choose(self.rng).unwrap();
                Arc::new(BinaryExpr::new(position, op, lit(least)))
            }
            6 => match self.rng.random_bool(0.5) {
                true => Arc::new(IsNullExpr::new(text)),
                false => Arc::new(IsNotNullExpr::new(text)),
            },
            _ => loop {
                let (left, of_left, _) = self.column();
                let (right, of_right, _) = self.column();
                if of_left == of_right {
                    let op = *[Eq, NotEq, Lt, LtEq, Gt, GtEq].choose(self.rng).unwrap();
                    break Arc::new(BinaryExpr::new(left, op, right));
                }
            },
        }
    }

    fn boolean(&mut self, depth: usize) -> Expr {
        if depth == 0 {
            return self.test();
        }
        match self.rng.random_range(0..4) {
            0 => Arc::new(NotExpr::new(self.boolean(depth - 1))),
            1 => {
                let (text, data_type, some) = self.slice();
                let part = self.part(&some);
                let branches = [some, part].map(|when| {
                    let then = self.boolean(depth - 1);
                    (self.constant(&data_type, &when), then)
                });
                Arc::new(CaseExpr::try_new(Some(text), branches.to_vec(), None).unwrap())
            }
            _ => {
                let op = *[Operator::And, Operator::Or].choose(self.rng).unwrap();
                let (left, right) = (self.boolean(depth - 1), self.boolean(depth - 1));
                Arc::new(BinaryExpr::new(left, op, right))
            }
        }
    }
}

fn same(expression: &Expr, batch: &RecordBatch, device: &HostDevice) {
    let theirs = expression.evaluate(batch).unwrap();
    let theirs = theirs.into_array(batch.num_rows()).unwrap();
    let ours = made(device, std::slice::from_ref(expression), batch);
    let ours = ours.unwrap_or_else(|| panic!("{expression} does not compile"));
    let ours = ours.unwrap_or_else(|| panic!("{expression} is for the host"));
    assert_eq!(&ours[0], &theirs, "{expression}");
}

#[test]
fn tests_of_text_say_what_expressions_say() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    for seed in 0..150 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let batch = table(rng, 60);
        let mut writer = Writer { rng, batch: &batch };
        for _ in 0..20 {
            let depth = writer.rng.random_range(0..3);
            same(&writer.boolean(depth), &batch, &device);
        }
    }
}

#[test]
fn characters_are_those_of_expressions() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    for seed in 0..60 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let batch = table(rng, 60);
        let mut writer = Writer { rng, batch: &batch };
        for _ in 0..10 {
            same(&writer.slice().0, &batch, &device);
        }
    }
}

/// Patterns that are found only where an earlier place is given up, or none.
#[test]
fn patterns_with_many_places() {
    let device = HostDevice::new(Budget::new(u64::MAX)).unwrap();
    let texts = [
        "", "a", "ab", "aab", "abab", "aaab", "éab", "aéb", "b\na", "😀", "😀é", "ba", "a%b",
        "a_b", "\\", "a\\", "aXbXab",
    ];
    let patterns = [
        "%a%ab%", "%a%b", "a%a%b", "%ab%ab%", "_", "__", "%_", "_%", "%__%", "%_b", "a_b", "%%",
        "%", "", "a\\%b", "a\\_b", "\\", "a\\", "\\\\", "%\\%%", "_%_", "%é%", "é__", "%_é", "%a_",
        "%a_%b%",
    ];
    for data_type in types().into_iter().take(3) {
        let values: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let values = cast(&values, &data_type).unwrap();
        let schema = Schema::new(vec![Field::new("t", data_type.clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap();
        for pattern in patterns {
            let pattern = ScalarValue::from(pattern).cast_to(&data_type).unwrap();
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("t", 0));
            let like: Expr = Arc::new(LikeExpr::new(false, false, column, lit(pattern)));
            same(&like, &batch, &device);
        }
    }
}

/// What is said of text by another column's pattern, or of two texts where one may be NULL, is DataFusion's. A pattern that is too long
/// and a constant that fails are evaluated by distinct values.
#[test]
fn what_does_not_compile() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("t", DataType::Utf8, true),
        Field::new("u", DataType::Utf8, true),
    ]));
    let column = |at| -> Expr { Arc::new(Column::new(["t", "u"][at], at)) };
    let like =
        |no_case, pattern| -> Expr { Arc::new(LikeExpr::new(false, no_case, column(0), pattern)) };
    let substr = |arguments: Vec<Expr>| {
        let of = function(unicode::substr(), arguments, &schema);
        let equal: Expr = Arc::new(BinaryExpr::new(of, Operator::Eq, lit("a")));
        equal
    };
    let compiled = |expression: &Expr| {
        crate::plan::compile::row_program::compile(std::slice::from_ref(expression), &schema)
    };
    for expression in [
        like(true, lit("a%")),
        like(false, lit("_".repeat(2000))),
        substr(vec![column(0), lit(1i64), lit(-1i64)]),
    ] {
        assert_eq!(
            compiled(&expression).unwrap().distinct.len(),
            1,
            "{expression}"
        );
    }
    for expression in [
        like(false, column(1)),
        Arc::new(BinaryExpr::new(
            column(0),
            Operator::IsDistinctFrom,
            column(1),
        )),
    ] {
        assert!(compiled(&expression).is_err(), "{expression}");
    }
}
