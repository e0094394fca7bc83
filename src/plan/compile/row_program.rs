//! Compiling expressions over the rows of one input into a [`RowProgram`] for the device: those of a projection, or the predicate of a
//! filter. The program has exactly the values of DataFusion's expressions; an expression for which this is uncertain does not compile.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;

use crate::ir::pair_program::Op;
use crate::ir::row_program::{
    MAX_ROW_INSTRUCTIONS, MAX_ROW_REGISTERS, RowInstruction, RowKind, RowOp, RowProgram, RowSource,
};
#[cfg(test)]
use crate::plan::calls;
use crate::plan::compile::compiler::{BOOL, Compiler, Expr};
use crate::plan::compile::constants::{constant, word_of};
use crate::plan::compile::fallible::may_be_scalar;
use crate::plan::compile::text;
use crate::plan::compile::text_tests::text_equals;
use crate::spec::rows::{ExpressionColumn, RowExpressions};

/// Most digits of a decimal of 128 bits, and most digits after its point.
const MAX_DIGITS: u8 = 38;
pub(crate) const MAX_SCALE: i8 = 38;

/// An expression that does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotCompiled {
    /// By its number; the first one, where all of them together need too many registers or instructions.
    pub(crate) expression: usize,
}

/// `expressions` over rows of `input` for the device.
///
/// # Errors
/// The first one that does not compile.
pub(crate) fn compile(
    expressions: &[Expr],
    input: &SchemaRef,
) -> Result<RowExpressions, NotCompiled> {
    #[cfg(test)]
    calls::count(calls::Maker::RowProgram);
    let mut compiler = Compiler {
        schema: input,
        instructions: vec![],
        columns: vec![],
        free: 0,
    };
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
    Ok(RowExpressions {
        input: Arc::clone(input),
        expressions: expressions.to_vec(),
        program: RowProgram {
            instructions: compiler.instructions,
            columns: compiler.columns,
            outputs,
        },
        columns,
    })
}

impl Compiler<'_> {
    /// Compiles one expression, whose value becomes the next output, or a column that is computed without the program.
    fn output(&mut self, expr: &Expr, outputs: &mut Vec<DataType>) -> Option<ExpressionColumn> {
        if is_volatile(expr) {
            return None;
        }
        let data_type = self.type_of(expr)?;
        if let Some(slice) = self.slice(expr, &data_type) {
            return Some(slice);
        }
        let output = outputs.len();
        let (expr, data_type, column) = match self.chosen(expr, &data_type) {
            Some((number, values)) => (
                number,
                DataType::UInt32,
                ExpressionColumn::Choice { output, values },
            ),
            None => (
                Arc::clone(expr),
                data_type,
                ExpressionColumn::Program(output),
            ),
        };
        let value = self.value(&expr)?;
        let kind = RowKind::of(&data_type)?;
        let store = self.emit(RowOp::Store, kind, [value, value, 0])?;
        store.column = u16::try_from(output).ok()?;
        self.free = 0;
        outputs.push(data_type);
        Some(column)
    }

    /// The expression to name where expression `i` did not compile behind those before it: itself, or the first one where it would
    /// compile alone.
    fn culprit(&self, i: usize, expr: &Expr) -> usize {
        let mut alone = Compiler {
            schema: self.schema,
            instructions: vec![],
            columns: vec![],
            free: 0,
        };
        match alone.output(expr, &mut vec![]) {
            Some(_) => 0,
            None => i,
        }
    }
}

impl Compiler<'_> {
    /// Adds an instruction with registers `[out, a, b]`.
    pub(crate) fn emit(
        &mut self,
        op: RowOp,
        kind: RowKind,
        [out, a, b]: [u8; 3],
    ) -> Option<&mut RowInstruction> {
        let room =
            self.instructions.len() < MAX_ROW_INSTRUCTIONS && usize::from(out) < MAX_ROW_REGISTERS;
        if !room {
            return None;
        }
        self.instructions.push(RowInstruction {
            op,
            kind,
            out,
            a,
            b,
            c: 0,
            column: 0,
            constant: 0,
            from: kind,
        });
        self.free = out + 1;
        self.instructions.last_mut()
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> Option<DataType> {
        expr.data_type(self.schema).ok()
    }

    fn kind_of(&self, expr: &Expr) -> Option<RowKind> {
        RowKind::of(&self.type_of(expr)?)
    }

    /// Computes `expr` into the first free register, and returns that.
    pub(crate) fn value(&mut self, expr: &Expr) -> Option<u8> {
        let data_type = self.type_of(expr)?;
        let kind = RowKind::of(&data_type)?;
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self.load(RowSource::Column(column.index()), kind);
        }
        if collect_columns(expr).is_empty() {
            return self.constant(kind, &constant(expr, &data_type)?);
        }
        if let Some((test, verdict)) = text::test(expr, self.schema) {
            return self.text_predicate(test, &verdict);
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, &data_type);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.unary(Op::Not, BOOL, not.arg());
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let operand = negative.arg();
            if let RowKind::Decimal = kind {
                let zero = self.constant(kind, &ScalarValue::Decimal128(Some(0), 1, 0))?;
                let value = self.value(operand)?;
                self.emit(RowOp::Plain(Op::Sub), kind, [zero, zero, value])?;
                return Some(zero);
            }
            let wraps = data_type.is_signed_integer() && !may_be_scalar(operand);
            return match wraps || data_type.is_floating() {
                true => self.unary(Op::Neg, kind, operand),
                false => None,
            };
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            return self.unary(Op::IsNull, BOOL, is_null.arg());
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            return self.unary(Op::IsNotNull, BOOL, is_not_null.arg());
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(cast.expr(), &data_type);
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            // Where it turns a value into NULL, the host decides.
            return self.cast(cast.expr(), &data_type);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case, &data_type);
        }
        if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(in_list);
        }
        self.call(expr, &data_type)
    }

    pub(crate) fn constant(&mut self, kind: RowKind, value: &ScalarValue) -> Option<u8> {
        let word = match value {
            ScalarValue::Decimal128(value, ..) => *value,
            other => word_of(other)?.map(i128::from),
        };
        let out = self.free;
        let instruction = self.emit(RowOp::Constant, kind, [out, 0, 0])?;
        instruction.constant = word.unwrap_or_default();
        instruction.b = word.is_none().into();
        Some(out)
    }

    pub(crate) fn load(&mut self, source: RowSource, kind: RowKind) -> Option<u8> {
        let known = self.columns.iter().position(|known| *known == source);
        let at = known.unwrap_or_else(|| {
            self.columns.push(source);
            self.columns.len() - 1
        });
        let out = self.free;
        self.emit(RowOp::Load, kind, [out, 0, 0])?.column = u16::try_from(at).ok()?;
        Some(out)
    }

    fn unary(&mut self, op: Op, kind: RowKind, operand: &Expr) -> Option<u8> {
        let out = self.value(operand)?;
        self.emit(RowOp::Plain(op), kind, [out, out, 0])?;
        Some(out)
    }

    fn binary(&mut self, binary: &BinaryExpr, data_type: &DataType) -> Option<u8> {
        let (left, right) = (binary.left(), binary.right());
        let (of_left, of_right) = (self.type_of(left)?, self.type_of(right)?);
        let wrapping = BinaryExpr::new(Arc::clone(left), *binary.op(), Arc::clone(right));
        if *binary != wrapping {
            // This one fails on overflow.
            return None;
        }
        if let (DataType::Decimal128(_, s), DataType::Decimal128(_, t)) = (&of_left, &of_right)
            && let Some(op) = arithmetic(binary.op())
        {
            return self.decimals(op, (left, *s), (right, *t), data_type);
        }
        let differ = of_left != of_right;
        if differ || (of_left == DataType::Date32 && *binary.op() == Operator::Minus) {
            return self.date_arithmetic(binary);
        }
        let numbers = of_left.is_integer() || of_left.is_floating();
        let op = match binary.op() {
            Operator::Eq => Op::Eq,
            Operator::NotEq => Op::NotEq,
            Operator::Lt => Op::Lt,
            Operator::LtEq => Op::LtEq,
            Operator::Gt => Op::Gt,
            Operator::GtEq => Op::GtEq,
            Operator::IsDistinctFrom => Op::Distinct,
            Operator::IsNotDistinctFrom => Op::NotDistinct,
            // DataFusion evaluates the right operand also on rows that the left one decides, unless these are many.
            Operator::And | Operator::Or if self.may_fail(right) => return None,
            Operator::And => Op::And,
            Operator::Or => Op::Or,
            other if numbers => arithmetic(other)?,
            _ => return None,
        };
        let a = self.value(left)?;
        let b = self.value(right)?;
        self.emit(RowOp::Plain(op), RowKind::of(&of_left)?, [a, a, b])?;
        Some(a)
    }

    /// From the last branch to the first: the result so far is what the branch before selects otherwise.
    fn case(&mut self, case: &CaseExpr, data_type: &DataType) -> Option<u8> {
        let (out, kind) = (self.free, RowKind::of(data_type)?);
        let base = match case.expr() {
            None => None,
            // Conditions on text by themselves.
            Some(base) if text::operand(base, self.schema).is_some() => None,
            Some(base) => {
                // DataFusion compares floats with a base bit by bit.
                let base_type = self.type_of(base)?;
                if base_type.is_floating() {
                    return None;
                }
                Some((self.value(base)?, base_type))
            }
        };
        let mut so_far = match case.else_expr() {
            Some(value) => self.branch(value, data_type)?,
            None => self.constant(kind, &ScalarValue::Null)?,
        };
        for (i, (when, then)) in case.when_then_expr().iter().enumerate().rev() {
            let when = match (case.expr(), &base) {
                (Some(text), None) => &text_equals(text, when),
                _ => when,
            };
            let condition = self.value(when)?;
            let when_type = self.type_of(when)?;
            match &base {
                None if when_type != DataType::Boolean => return None,
                None => {}
                Some((_, base_type)) if when_type != *base_type => return None,
                Some((base, base_type)) => {
                    let kind = RowKind::of(base_type)?;
                    self.emit(RowOp::Plain(Op::Eq), kind, [condition, *base, condition])?;
                }
            }
            let then = self.branch(then, data_type)?;
            let target = if i == 0 { out } else { so_far };
            self.emit(RowOp::Plain(Op::Select), kind, [target, condition, then])?
                .c = so_far;
            so_far = target;
        }
        Some(out)
    }

    /// A value of the type of the whole CASE, or NULL.
    fn branch(&mut self, expr: &Expr, data_type: &DataType) -> Option<u8> {
        match self.type_of(expr)? {
            DataType::Null => self.constant(RowKind::of(data_type)?, &ScalarValue::Null),
            same if same == *data_type => self.value(expr),
            _ => None,
        }
    }

    /// `a = x OR a = y OR …`, or its opposite.
    fn in_list(&mut self, in_list: &InListExpr) -> Option<u8> {
        let data_type = self.type_of(in_list.expr())?;
        // It is not specified how DataFusion's sets compare floats.
        if data_type.is_floating() || in_list.list().is_empty() {
            return None;
        }
        let kind = self.kind_of(in_list.expr())?;
        let value = self.value(in_list.expr())?;
        let mut found = None;
        for item in in_list.list() {
            if self.may_fail(item) {
                return None;
            }
            let item = self.branch(item, &data_type)?;
            self.emit(RowOp::Plain(Op::Eq), kind, [item, value, item])?;
            match found {
                None => found = Some(item),
                Some(found) => {
                    self.emit(RowOp::Plain(Op::Or), BOOL, [found, found, item])?;
                }
            }
        }
        let found = found?;
        match in_list.negated() {
            true => self.emit(RowOp::Plain(Op::Not), BOOL, [value, found, 0])?,
            // Down to the expression's own register.
            false => self.emit(RowOp::Plain(Op::Or), BOOL, [value, found, found])?,
        };
        Some(value)
    }
}

fn arithmetic(op: &Operator) -> Option<Op> {
    Some(match op {
        Operator::Plus => Op::Add,
        Operator::Minus => Op::Sub,
        Operator::Multiply => Op::Mul,
        Operator::Divide => Op::Div,
        Operator::Modulo => Op::Rem,
        _ => return None,
    })
}

pub(crate) fn ten_to(power: i8) -> Option<i128> {
    let power = u8::try_from(power).ok().filter(|p| *p <= MAX_DIGITS)?;
    Some(10i128.pow(power.into()))
}

#[cfg(test)]
mod tests;
