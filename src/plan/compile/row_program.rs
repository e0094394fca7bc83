//! Compiling expressions over the rows of one input into a [`RowProgram`] for the device: those of a projection, or the predicate of a
//! filter. The program has exactly the values of DataFusion's expressions; an expression for which this is uncertain does not compile.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::physical_expr::expressions::{BinaryExpr, Column};

use crate::ir::program::{Kind, Op};
use crate::ir::row_program::{MAX_ROW_INSTRUCTIONS, MAX_ROW_REGISTERS, RowProgram, RowSource};
#[cfg(test)]
use crate::plan::calls;
use crate::plan::compile::compiler::{Compiler, Expr, Target};
use crate::plan::compile::distinct::Compiles;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::compile::{distinct, text};
use crate::spec::rows::{ExpressionColumn, RowExpressions, SubqueryConstant};

/// A program over rows: what its loads read.
#[derive(Default)]
pub(crate) struct Rows {
    columns: Vec<RowSource>,
    subqueries: Vec<SubqueryConstant>,
}

impl Target for Rows {
    const MAX_REGISTERS: usize = MAX_ROW_REGISTERS;
    const MAX_INSTRUCTIONS: usize = MAX_ROW_INSTRUCTIONS;

    fn kind(data_type: &DataType) -> Option<Kind> {
        Kind::of(data_type)
    }

    fn value(
        compiler: &mut Compiler<'_, Self>,
        expr: &Expr,
        data_type: &DataType,
        kind: Kind,
    ) -> Option<u8> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return compiler.load_source(RowSource::Column(column.index()), kind);
        }
        if let Some((test, verdict)) = text::test(expr, compiler.schema) {
            return compiler.text_predicate(test, &verdict);
        }
        match text::case_of_text(expr, compiler.schema) {
            Some(case) => compiler.case(&case, data_type, kind),
            None => compiler.operation(expr, data_type, kind),
        }
    }

    /// DataFusion evaluates the operand also on rows that the ones before it decide, unless these are many.
    fn may_skip(compiler: &Compiler<'_, Self>, operand: &Expr) -> bool {
        !compiler.may_fail(operand)
    }

    fn call(compiler: &mut Compiler<'_, Self>, expr: &Expr, data_type: &DataType) -> Option<u8> {
        compiler.function(expr, data_type)
    }

    fn arithmetic(
        compiler: &mut Compiler<'_, Self>,
        op: Op,
        binary: &BinaryExpr,
        data_type: &DataType,
    ) -> Option<u8> {
        let (left, right) = (binary.left(), binary.right());
        match (compiler.type_of(left)?, compiler.type_of(right)?) {
            (DataType::Decimal128(_, s), DataType::Decimal128(_, t)) => {
                compiler.decimals(op, (left, s), (right, t), data_type)
            }
            (of_left, of_right) => compiler.date_arithmetic(op, (left, of_left), (right, of_right)),
        }
    }

    fn subquery(compiler: &mut Compiler<'_, Self>, expr: &Expr, kind: Kind) -> Option<u8> {
        let instruction = compiler.instructions.len();
        let out = compiler.word(kind, 0)?;
        compiler.target.subqueries.push(SubqueryConstant {
            instruction,
            expression: Arc::clone(expr),
        });
        Some(out)
    }

    fn cast(
        compiler: &mut Compiler<'_, Self>,
        out: u8,
        from: &DataType,
        to: &DataType,
    ) -> Option<()> {
        compiler.cast_other(out, from, to)
    }
}

/// An expression that does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotCompiled {
    /// By its number; the first one, where all of them together need too many registers or instructions.
    pub(crate) expression: usize,
}

/// `expressions` over rows of `input` for the device. Parts of one column that do not compile are [evaluated over its distinct
/// values](crate::plan::compile::distinct).
///
/// # Errors
/// The first one that does not compile.
pub(crate) fn compile(
    expressions: &[Expr],
    input: &SchemaRef,
) -> Result<RowExpressions, NotCompiled> {
    #[cfg(test)]
    calls::count(calls::Maker::RowProgram);
    let (compiled, distinct) = match compile_all(expressions, input) {
        Ok(compiled) => (compiled, vec![]),
        Err(error) => {
            let compiles = Compiles {
                column: Compiler::<Rows>::compiles,
                operand: Compiler::<Rows>::computes,
            };
            let parted = distinct::part(expressions, input, compiles).ok_or(error)?;
            let compiled = compile_all(&parted.expressions, &parted.schema)?;
            (compiled, parted.distinct)
        }
    };
    let Compiled {
        program,
        columns,
        subqueries,
    } = compiled;
    Ok(RowExpressions {
        input: Arc::clone(input),
        expressions: expressions.to_vec(),
        distinct,
        program,
        columns,
        subqueries,
    })
}

/// Compiled expressions.
struct Compiled {
    program: RowProgram,
    columns: Vec<ExpressionColumn>,
    subqueries: Vec<SubqueryConstant>,
}

fn compile_all(expressions: &[Expr], schema: &Schema) -> Result<Compiled, NotCompiled> {
    let mut compiler = Compiler::new(schema, Rows::default());
    let (mut outputs, mut columns) = (vec![], vec![]);
    for (i, expr) in expressions.iter().enumerate() {
        match compiler.output(expr, &mut outputs) {
            Some(column) => columns.push(column),
            None => {
                return Err(NotCompiled {
                    expression: compiler.culprit(i, expr),
                });
            }
        }
    }
    let Rows {
        columns: sources,
        subqueries,
    } = compiler.target;
    Ok(Compiled {
        program: RowProgram {
            instructions: compiler.instructions,
            columns: sources,
            outputs,
        },
        columns,
        subqueries,
    })
}

impl Compiler<'_, Rows> {
    /// Compiles one expression, whose value becomes the next output, or a column that is computed without the program.
    fn output(&mut self, expr: &Expr, outputs: &mut Vec<DataType>) -> Option<ExpressionColumn> {
        if !permits(expr, Use::Repeat) {
            return None;
        }
        let data_type = self.type_of(expr)?;
        // A filter reads a Boolean of the program.
        if let Some(column) = expr.downcast_ref::<Column>()
            && data_type != DataType::Boolean
        {
            return Some(ExpressionColumn::Column(column.index()));
        }
        if let Some(made) = self.slice(expr, &data_type).or_else(|| self.shingles(expr)) {
            return Some(made);
        }
        let output = outputs.len();
        let (expr, data_type, column) = match self.chosen(expr, &data_type) {
            Some((number, sources)) => (
                number,
                DataType::UInt32,
                ExpressionColumn::Choice { output, sources },
            ),
            None => (
                Arc::clone(expr),
                data_type,
                ExpressionColumn::Program(output),
            ),
        };
        let value = self.value(&expr)?;
        let kind = Kind::of(&data_type)?;
        let store = self.emit(Op::Store, kind, [value, value, 0])?;
        store.column = u16::try_from(output).ok()?;
        self.free = 0;
        outputs.push(data_type);
        Some(column)
    }

    /// Whether it compiles alone.
    pub(crate) fn compiles(schema: &Schema, expr: &Expr) -> bool {
        let mut alone = Compiler::new(schema, Rows::default());
        alone.output(expr, &mut vec![]).is_some()
    }

    /// Whether a program computes it alone, as an operand of others.
    pub(crate) fn computes(schema: &Schema, expr: &Expr) -> bool {
        Compiler::new(schema, Rows::default()).value(expr).is_some()
    }

    /// The expression to name where expression `i` did not compile behind those before it: itself, or the first one where it would
    /// compile alone.
    fn culprit(&self, i: usize, expr: &Expr) -> usize {
        match Self::compiles(self.schema, expr) {
            true => 0,
            false => i,
        }
    }

    pub(crate) fn load_source(&mut self, source: RowSource, kind: Kind) -> Option<u8> {
        let columns = &mut self.target.columns;
        let known = columns.iter().position(|known| *known == source);
        let column = known.unwrap_or_else(|| {
            columns.push(source);
            columns.len() - 1
        });
        self.load(Op::Load, kind, column)
    }
}

#[cfg(test)]
mod tests;
