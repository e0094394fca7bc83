//! The loop of a kernel over the tiles of its block.

use crate::device::cuda::codegen::groups::words::{Slots, Words};
use crate::device::cuda::codegen::layout::Place;
use crate::device::cuda::codegen::ptx::{Text, Word};
use crate::device::cuda::codegen::registers::{Register, Rows};
use crate::device::cuda::codegen::shape::Shape;
use crate::device::cuda::codegen::translate::{Machine, widths};
use crate::device::cuda::runtime::kernel_cache::form::GroupShape;
use crate::device::cuda::runtime::kernel_cache::generated::{Generated, KERNEL, Layout, Parameter};

/// Bytes of a row in registers up to which a thread has eight rows.
const FEW_BYTES: u32 = 12;

/// Generates a kernel with words of groups as `slots` says; `None` if it is too long, or has an instruction that only the interpreter has. Its
/// output must be zeroed: a word for faults, and the words of all groups.
pub(crate) fn generate(shape: &Shape<'_>, of: &GroupShape, slots: Slots) -> Option<Generated> {
    let (bytes, widest) = widths(shape)?;
    let rows = if bytes <= FEW_BYTES { 8 } else { 4 };
    let layout = Layout::new(widest, rows, slots.threads());
    let mut text = Text::default();
    let rows = text.rows();
    let tile = text.word("mov.u32", &[&"%ctaid.x"]);
    let blocks = text.word("mov.u32", &[&"%nctaid.x"]);
    let all = text.word("add.u32", &[&rows, &(layout.tile() - 1)]);
    let all = text.word("div.u32", &[&all, &layout.tile()]);
    let first = Place::new(&mut text, layout, tile, rows);
    let mut words = Words::new(&mut text, of, slots);
    words.clear(&mut text);
    let parameters = vec![Parameter::Rows];
    let mut machine = Machine::new(shape, text, first.clone(), parameters)?;
    let flag = machine.pointer(Parameter::Counts);
    machine.text.line("TILE:");
    let is_done = machine.text.predicate("setp.ge.u32", &[&tile, &all]);
    machine.text.line(format_args!("@{is_done} bra DONE;"));
    let place = first.in_tile(&mut machine.text, tile);
    machine.load(&place);
    machine.take(place);
    for (at, instruction) in shape.program.instructions.iter().enumerate() {
        machine.run(at, instruction)?;
        if machine.text.is_too_long() {
            return None;
        }
    }
    let passing = passing(&mut machine, of)?;
    let arguments = of.accumulators.iter().map(|accumulator| {
        let register = machine.register(accumulator.register)?;
        let counted = accumulator.nullable || register.null.is_none();
        (register.kind == accumulator.kind && counted).then_some(register)
    });
    let arguments = arguments.collect::<Option<Vec<Register>>>()?;
    for argument in &arguments {
        let faults = machine.text.and(argument.fault, Some(passing));
        machine.add_faulty_rows(faults);
    }
    let keys = of.keys.iter().map(|key| machine.register(key.register));
    let keys = keys.collect::<Option<Vec<Register>>>()?;
    for k in 0..layout.rows() {
        let text = &mut machine.text;
        let passes = text.bit(passing, k);
        text.line(format_args!("@!{passes} bra ROW{k};"));
        let group = group_of(text, of, &keys, k)?;
        words.add(text, group, of, &arguments, k)?;
        text.line(format_args!("ROW{k}:"));
        if text.is_too_long() {
            return None;
        }
    }
    if let Some(faults) = machine.faults {
        let text = &mut machine.text;
        let any = text.predicate("setp.ne.u32", &[&faults, &0]);
        text.line(format_args!("@{any} st.global.u64 [{flag}], 1;"));
    }
    let text = &mut machine.text;
    text.set("add.u32", tile, &[&tile, &blocks]);
    text.line("bra TILE;");
    text.line("DONE:");
    words.flush(text, &first, flag);
    let shared = words.bytes();
    let (text, parameters) = machine.done();
    Some(Generated {
        text: text.module(KERNEL, parameters.len(), layout.threads),
        parameters,
        layout,
        persistent_shared_bytes: Some(shared),
        nullable: vec![],
    })
}

/// The rows for which all predicates are TRUE.
fn passing(machine: &mut Machine<'_>, of: &GroupShape) -> Option<Word> {
    let all = machine.text.word("mov.u32", &[&"0xffffffff"]);
    let mut passing = machine.inside(all)?;
    for predicate in &of.predicates {
        let register = machine.register(*predicate)?;
        let faults = machine.text.and(register.fault, Some(passing));
        machine.add_faulty_rows(faults);
        let is_true = register.is_true(&mut machine.text)?;
        passing = machine.text.and(Some(passing), Some(is_true))?;
    }
    Some(passing)
}

/// The group of row `k` of the thread.
fn group_of(text: &mut Text, of: &GroupShape, keys: &[Register], k: u32) -> Option<Word> {
    let mut group = text.word("mov.u32", &[&0]);
    for (key, codes) in of.keys.iter().zip(keys) {
        let Rows::Words(words) = &codes.rows else {
            return None;
        };
        // What is stored where a row is NULL may be any code.
        let mut digit = text.word("min.u32", &[words.get(k as usize)?, &(key.bound - 1)]);
        match (codes.null, key.nullable) {
            (Some(null), true) => {
                let is_null = text.bit(null, k);
                digit = text.word("selp.b32", &[&key.bound, &digit, &is_null]);
            }
            (Some(_), false) => return None,
            (None, _) => {}
        }
        group = text.word("mad.lo.u32", &[&group, &key.digits(), &digit]);
    }
    Some(group)
}
