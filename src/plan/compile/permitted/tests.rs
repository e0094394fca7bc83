//! Kinds of expressions against what a rewrite may do with them.

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, DynamicFilterPhysicalExpr, lit,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::prelude::SessionContext;

use super::*;
use crate::plan::compile::early_value::evaluated;

fn schema() -> Schema {
    Schema::new(vec![Field::new("a", DataType::Int64, true)])
}

fn column() -> Expr {
    Arc::new(Column::new("a", 0))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

/// An expression of SQL over column `a`.
fn of_sql(sql: &str) -> Expr {
    let context = SessionContext::new();
    let schema = schema();
    let of_schema = datafusion::common::DFSchema::try_from(schema).unwrap();
    let expr = context.parse_sql_expr(sql, &of_schema).unwrap();
    context.create_physical_expr(expr, &of_schema).unwrap()
}

fn subquery() -> Expr {
    let results = ScalarSubqueryResults::new(1);
    Arc::new(ScalarSubqueryExpr::new(
        DataType::Int64,
        true,
        SubqueryIndex::new(0),
        results,
    ))
}

fn variable() -> Expr {
    let field = Arc::new(Field::new("x", DataType::Int64, true));
    Arc::new(LambdaVariable::new(1, field))
}

/// What is permitted of an expression: to evaluate, repeat, move and rebind it.
fn permitted(expr: &Expr) -> [bool; 4] {
    let row = Int64Array::from(vec![Some(3)]);
    let schema = schema();
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(row)]).unwrap();
    [
        evaluated(expr, &batch).is_some(),
        permits(expr, Use::Repeat),
        permits(expr, Use::Move(&schema)),
        permits(expr, Use::Rebind),
    ]
}

#[test]
fn kinds_of_expressions() {
    let one = || lit(1_i64);
    let sum = |of: Expr| binary(column(), Operator::Plus, of);
    let dynamic: Expr = Arc::new(DynamicFilterPhysicalExpr::new(vec![column()], lit(true)));
    let narrowed: Expr = Arc::new(CastExpr::new(column(), DataType::Int8, None));
    let case = |then: Expr| -> Expr {
        let when = binary(column(), Operator::Gt, lit(0_i64));
        Arc::new(CaseExpr::try_new(None, vec![(when, then)], None).unwrap())
    };
    let cases: Vec<(&str, Expr, [bool; 4])> = vec![
        ("a column", column(), [true; 4]),
        ("a constant", one(), [true; 4]),
        ("a sum", sum(one()), [true; 4]),
        ("a NULL", lit(ScalarValue::Int64(None)), [true; 4]),
        (
            "a comparison",
            binary(column(), Operator::Lt, one()),
            [true; 4],
        ),
        ("a choice", case(one()), [true; 4]),
        (
            "a division",
            binary(column(), Operator::Divide, column()),
            [true, true, false, true],
        ),
        (
            "a division by a constant",
            binary(column(), Operator::Divide, one()),
            [true; 4],
        ),
        (
            "a division that may overflow",
            binary(column(), Operator::Modulo, lit(-1_i64)),
            [true, true, false, true],
        ),
        (
            "a division by zero",
            binary(column(), Operator::Divide, lit(0_i64)),
            [false, true, false, true],
        ),
        ("a cast that narrows", narrowed, [true, true, false, true]),
        ("a function", of_sql("abs(a)"), [true, true, false, true]),
        (
            "a volatile one",
            of_sql("random()"),
            [false, false, false, true],
        ),
        ("another", of_sql("uuid()"), [false, false, false, true]),
        (
            "a volatile part",
            case(of_sql("CAST(random() * 10 AS BIGINT)")),
            [false, false, false, true],
        ),
        ("a subquery", subquery(), [false, true, true, true]),
        ("a sum with one", sum(subquery()), [false, true, true, true]),
        (
            "a choice of one",
            case(subquery()),
            [false, true, true, true],
        ),
        ("a dynamic filter", dynamic, [false, true, false, true]),
        ("a lambda", sum(variable()), [false, true, false, false]),
    ];
    for (name, expr, expected) in cases {
        assert_eq!(permitted(&expr), expected, "{name}: {expr}");
    }
}

/// What is computed once is read once, unless it has one value.
#[test]
fn merged_projections() {
    let random = || of_sql("random()");
    let at = |i: usize| -> Expr { Arc::new(Column::new("c", i)) };
    assert!(merged(&[at(0), at(0)], &[column()]).is_some());
    assert!(merged(&[at(0)], &[random()]).is_some());
    assert!(merged(&[at(0), at(0)], &[random()]).is_none());
    let twice = binary(at(0), Operator::Plus, at(0));
    assert!(merged(std::slice::from_ref(&twice), &[random()]).is_none());
    assert!(merged(&[twice], &[of_sql("abs(a)")]).is_some());
    assert!(merged(&[at(1)], &[random(), column()]).is_some());
}
