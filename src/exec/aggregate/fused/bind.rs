//! A [`FusedProgram`] over the codes of one piece.

use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::data::encoding::{CodedValues, Encoding};
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::aggregate::fused::compose::{FusedFold, FusedProgram};
use crate::exec::rows::evaluate::read_by;
use crate::ir::fold::Fold;
use crate::ir::group_program::{Accumulator, GroupProgram, KeyCodes};
use crate::ir::program::{Instruction, Op};
use crate::ir::row_program::RowSource;

/// A program with its columns.
pub(crate) struct BoundGroups {
    pub program: GroupProgram,
    pub columns: Vec<Arc<Column>>,
    /// What the codes of each key stand for.
    pub keys: Vec<Encoding>,
    /// For each fold the index of its accumulator; `None` for the number of rows.
    pub places: Vec<Option<usize>>,
}

impl FusedProgram {
    /// The program over a piece; `None` unless its keys are codes of few values.
    ///
    /// # Errors
    /// If there is no memory for the results of tests of text.
    pub(crate) fn bind(
        &self,
        device: &dyn Device,
        batch: &DeviceBatch,
    ) -> Result<Option<BoundGroups>> {
        let Some(keys) = self.key_encodings(batch)? else {
            return Ok(None);
        };
        let first = self.rows.registers();
        let digits = keys.iter().enumerate().map(|(i, encoding)| {
            Some(KeyCodes {
                register: u8::try_from(first + i).ok()?,
                bound: few_codes(encoding)?,
                nullable: is_nullable(encoding),
            })
        });
        let Some(digits) = digits.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut program = GroupProgram {
            rows: self.rows.clone(),
            predicates: self.predicates.clone(),
            keys: digits,
            accumulators: vec![],
        };
        if program.groups().is_none() {
            return Ok(None);
        }
        let nullable = self.nullable_registers(batch)?;
        let mut places = vec![None; self.folds.len()];
        // Any accumulator of a register counts its values, so those that only count come last.
        for counts in [false, true] {
            for (FusedFold { fold, argument }, place) in self.folds.iter().zip(&mut places) {
                let Some(argument) = argument else { continue };
                let register = usize::from(argument.register);
                let nullable = nullable.get(register).copied().unwrap_or(true);
                if (*fold == Fold::Count) != counts || (counts && !nullable) {
                    continue;
                }
                let same = |known: &Accumulator| {
                    known.register == argument.register && (counts || known.fold == *fold)
                };
                let known = program.accumulators.iter().position(same);
                *place = Some(known.unwrap_or_else(|| {
                    program.accumulators.push(Accumulator {
                        fold: *fold,
                        register: argument.register,
                        kind: argument.kind,
                        nullable,
                    });
                    program.accumulators.len() - 1
                }));
            }
        }
        let (rows, mut columns) = read_by(device, &self.rows, batch)?;
        program.rows = rows.into_owned();
        for ((key, encoding), digits) in self.keys.iter().zip(&keys).zip(&program.keys) {
            program.rows.instructions.push(Instruction {
                column: columns.len() as u16,
                ..Instruction::of(Op::Load, encoding.code, [digits.register, 0, 0])
            });
            program.rows.columns.push(RowSource::Column(*key));
            columns.push(match batch.any(*key)? {
                BatchColumn::Encoded(encoded) => Arc::clone(&encoded.codes),
                BatchColumn::Values(values) => Arc::clone(values),
            });
        }
        Ok(Some(BoundGroups {
            program,
            columns,
            keys,
            places,
        }))
    }

    /// The encodings of the keys; `None` if one has none.
    fn key_encodings(&self, batch: &DeviceBatch) -> Result<Option<Vec<Encoding>>> {
        let keys = self.keys.iter();
        let keys = keys.map(|key| Ok(batch.any(*key)?.encoding().cloned()));
        Ok(keys.collect::<Result<Vec<_>>>()?.into_iter().collect())
    }

    /// Whether each register may be NULL.
    fn nullable_registers(&self, batch: &DeviceBatch) -> Result<Vec<bool>> {
        let columns = self.rows.columns.iter().map(|source| {
            let column = match source {
                RowSource::Column(column) => *column,
                RowSource::Test(test) if test.other().is_none() => test.column,
                RowSource::Test(_) => return Ok(true),
            };
            Ok(match batch.any(column)?.encoding() {
                None => true,
                // What a test gives for a NULL of the dictionary is NULL.
                Some(encoding) => encoding.nullable,
            })
        });
        let columns = columns.collect::<Result<Vec<bool>>>()?;
        let mut nullable = vec![true; self.rows.registers()];
        for instruction in &self.rows.instructions {
            let Instruction { op, a, b, c, .. } = *instruction;
            let of = |register: u8| nullable.get(usize::from(register)).copied().unwrap_or(true);
            let made = match op {
                Op::Load => columns.get(usize::from(instruction.column)).copied(),
                Op::Constant => Some(b == 1),
                Op::IsNull | Op::IsNotNull | Op::Distinct | Op::NotDistinct => Some(false),
                Op::Neg
                | Op::Not
                | Op::Cast
                | Op::Scale
                | Op::Round
                | Op::Floor
                | Op::Part
                | Op::Truncate
                | Op::ToFloat
                | Op::FromFloat => Some(of(a)),
                // A condition that is NULL takes the last operand.
                Op::Select => Some(of(b) || of(c)),
                _ => Some(of(a) || of(b)),
            };
            if let Some(place) = nullable.get_mut(usize::from(instruction.out)) {
                *place = made.unwrap_or(true);
            }
        }
        Ok(nullable)
    }
}

/// A number of codes that all are below; rounded up, so that pieces with somewhat other values share a kernel.
fn few_codes(encoding: &Encoding) -> Option<u32> {
    let bound = u32::try_from(encoding.bound).ok()?;
    match encoding.values {
        CodedValues::Offset { .. } => bound.checked_next_power_of_two(),
        CodedValues::Dictionary(_) => Some(bound),
    }
}

/// Whether rows without a code are NULL: in a dictionary NULL has a code.
fn is_nullable(encoding: &Encoding) -> bool {
    match encoding.values {
        CodedValues::Offset { .. } => encoding.nullable,
        CodedValues::Dictionary(_) => false,
    }
}
