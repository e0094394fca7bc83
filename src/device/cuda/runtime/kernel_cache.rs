//! The kernels that the driver compiled for a card's row programs: at most [`KEPT`], the least recently used ones are
//! dropped.
//!
//! A kernel's module is unloaded with the last [`CudaFunction`] of it. The cache has one. Each stream that launched the kernel has another one
//! until that work was waited for; a stream that ends before leaves it here, with the event behind its work.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::Arc;

use arrow::datatypes::DataType;
use cudarc::driver::sys::{CUfunction_attribute_enum, CUresult};
use cudarc::driver::{CudaContext, CudaFunction, DriverError};
use cudarc::nvrtc::Ptx;
use parking_lot::Mutex;

use crate::device::counters::Counted;
use crate::device::cuda::runtime::driver::{failed, is_out_of_memory};
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::kernel_cache::form::Form;
use crate::device::cuda::runtime::kernel_cache::generated::{Generated, KERNEL, Layout, Parameter};
use crate::device::cuda::runtime::kernels::GeneratedKernel;
use crate::device::cuda::runtime::ptx_entries::{PtxParameter, entries};
use crate::device::trace::{self, Lane};
use crate::error::{BowtieError, Result};
use crate::ir::program::{Instruction, Kind};
use crate::ir::row_program::RowProgram;

pub(crate) mod form;
pub(crate) mod generated;

/// The most kernels that are kept. A kernel takes some tens of KiB of the card's memory, and 5 to 30 ms to compile.
const KEPT: usize = 1024;

/// The most programs without a kernel whose rows are counted.
const SEEN: usize = 1024;

/// Identifies a kernel: the program without its constants, which columns have NULLs, and what becomes of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    instructions: Vec<Instruction>,
    outputs: Vec<DataType>,
    columns: Vec<(Kind, bool)>,
    form: Form,
}

impl Key {
    pub(crate) fn new(program: &RowProgram, columns: &[(Kind, bool)], form: &Form) -> Self {
        let constants_apart = |instruction: &Instruction| Instruction {
            constant: 0,
            ..*instruction
        };
        Self {
            instructions: program.instructions.iter().map(constants_apart).collect(),
            outputs: program.outputs.clone(),
            columns: columns.to_vec(),
            form: form.clone(),
        }
    }
}

/// The number of blocks that run concurrently on a multiprocessor, and the bytes of shared memory of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistentGrid {
    pub blocks: u32,
    pub shared: u32,
}

/// A kernel that can be launched.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) generated: GeneratedKernel,
    pub parameters: Vec<Parameter>,
    pub layout: Layout,
    /// For a kernel whose blocks loop over tiles.
    pub persistent: Option<PersistentGrid>,
    pub nullable: Vec<bool>,
}

impl Kernel {
    /// Whether a multiprocessor has other work while a block waits for other blocks.
    fn is_spread(&self) -> bool {
        self.persistent
            .is_none_or(|persistent| persistent.blocks > 1)
    }
}

/// A program's kernel.
#[derive(Debug, Default)]
struct Entry {
    /// The rows that it was asked to evaluate so far.
    rows: Mutex<u64>,
    /// `None`: not compiled yet. `Some(None)`: the interpreter has to run it.
    kernel: Mutex<Option<Option<Arc<Kernel>>>>,
}

impl Entry {
    /// Kernels take memory of the card, other entries hardly any. An entry whose kernel is locked counts as one with a kernel.
    fn has_kernel(&self) -> bool {
        let kernel = self.kernel.try_lock();
        kernel.is_none_or(|kernel| matches!(*kernel, Some(Some(_))))
    }
}

/// The programs of a card.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    programs: Mutex<Programs>,
    retired: Mutex<Vec<Retired>>,
}

#[derive(Debug, Default)]
struct Programs {
    /// Each with the number of its last use.
    entries: HashMap<Key, (u64, Arc<Entry>)>,
    uses: u64,
}

/// Kernels that a stream launched, and the event behind its work.
type Retired = (Event, Vec<CudaFunction>);

impl Compiled {
    /// The kernel of a program that is to evaluate `rows` rows. It compiles the kernels that `generated` yields until
    /// one has several blocks running concurrently, and takes the last one otherwise. `None` until the program was
    /// asked for `after` rows in all; and without a kernel, without device memory, or without a compiler in the driver.
    pub(crate) fn kernel(
        &self,
        context: &Arc<CudaContext>,
        key: Key,
        (rows, after): (usize, u64),
        generated: &mut dyn Iterator<Item = Generated>,
    ) -> Result<Option<Arc<Kernel>>> {
        let entry = self.entry(key);
        {
            let mut seen = entry.rows.lock();
            *seen = seen.saturating_add(rows as u64);
            if *seen < after {
                return Ok(None);
            }
        }
        // Only those who need the same kernel wait until it is compiled.
        let mut kernel = entry.kernel.lock();
        if let Some(kernel) = kernel.as_ref() {
            return Ok(kernel.clone());
        }
        let mut made = None;
        for generated in generated {
            check_parameters(&generated)?;
            let compiled = trace::timed(
                Counted::TranslationTime,
                Lane::Wait,
                "compile an expression",
                || compile(context, generated),
            );
            match compiled {
                Ok(compiled) => made = Some(Arc::new(compiled)),
                // Memory may suffice another time.
                Err(e) if is_out_of_memory(e) => return Ok(None),
                Err(e) if compiles_nothing(e) => break,
                Err(e) => return Err(failed(context, "compiling a program", e)),
            }
            if made.as_ref().is_some_and(|made| made.is_spread()) {
                break;
            }
        }
        let made = kernel.insert(made).clone();
        drop(kernel);
        self.evict();
        Ok(made)
    }

    fn entry(&self, key: Key) -> Arc<Entry> {
        let mut programs = self.programs.lock();
        programs.uses += 1;
        let uses = programs.uses;
        let place = match programs.entries.entry(key) {
            Place::Occupied(mut known) => {
                known.get_mut().0 = uses;
                return Arc::clone(&known.get().1);
            }
            Place::Vacant(place) => place,
        };
        let entry = Arc::clone(&place.insert((uses, Arc::default())).1);
        drop(programs);
        self.evict();
        entry
    }

    /// Drops the least recently used entries that are too many.
    fn evict(&self) {
        let mut programs = self.programs.lock();
        let mut dropped = vec![];
        for (with_kernel, most) in [(true, KEPT), (false, SEEN)] {
            let entries = programs.entries.values();
            let entries = entries.filter(|(_, entry)| entry.has_kernel() == with_kernel);
            let mut uses: Vec<u64> = entries.map(|(used, _)| *used).collect();
            let Some(last) = uses.len().checked_sub(most + 1) else {
                continue;
            };
            let last = *uses.select_nth_unstable(last).1;
            let evicted = programs
                .entries
                .extract_if(|_, (used, entry)| *used <= last && entry.has_kernel() == with_kernel);
            dropped.extend(evicted);
        }
        // Without the lock: the driver may take a while to unload a module.
        drop(programs);
        drop(dropped);
        self.unload();
    }

    /// Drops all entries.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        let entries = std::mem::take(&mut self.programs.lock().entries);
        drop(entries);
        self.unload();
    }

    /// Keeps kernels that a stream launched before it ended, until the event behind that work.
    pub(crate) fn retire(&self, done: Event, kernels: Vec<CudaFunction>) {
        self.retired.lock().push((done, kernels));
        self.unload();
    }

    /// Drops retired kernels that do not run any more; after an error of the card none does.
    fn unload(&self) {
        let is_done = |(done, _): &mut Retired| done.is_done().unwrap_or(true);
        let mut retired = self.retired.lock();
        let ended: Vec<Retired> = retired.extract_if(.., is_done).collect();
        drop(retired);
        drop(ended);
    }
}

/// Whether the driver has no compiler, or must not use it. Built-in kernels may still run, as machine code.
fn compiles_nothing(error: DriverError) -> bool {
    matches!(
        error.0,
        CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED
            | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
    )
}

/// Whether a text declares one kernel with a parameter of 64 bits for each of the parameters that a launch is to give.
fn check_parameters(generated: &Generated) -> Result<()> {
    let entries = entries(&generated.text).map_err(BowtieError::Internal)?;
    let declared = match &entries[..] {
        [entry] => &entry.parameters[..],
        _ => &[],
    };
    let (wanted, are_words) = (
        generated.parameters.len(),
        declared.iter().all(|p| *p == PtxParameter::U64),
    );
    match declared.len() == wanted && are_words {
        true => Ok(()),
        false => Err(BowtieError::Internal(format!(
            "a compiled expression has {wanted} parameters of 64 bits, and its text declares {declared:?}"
        ))),
    }
}

fn compile(context: &Arc<CudaContext>, generated: Generated) -> Result<Kernel, DriverError> {
    let Generated {
        text,
        parameters,
        layout,
        persistent_shared_bytes,
        nullable,
    } = generated;
    let function = context
        .load_module(Ptx::from_src(text))
        .and_then(|module| module.load_function(KERNEL))?;
    let persistent = match persistent_shared_bytes {
        None => None,
        Some(shared) => {
            let most = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(most, shared as i32)?;
            let shared_bytes = shared as usize;
            let blocks = function.occupancy_max_active_blocks_per_multiprocessor(
                layout.threads,
                shared_bytes,
                None,
            )?;
            Some(PersistentGrid {
                blocks: blocks.max(1),
                shared,
            })
        }
    };
    Ok(Kernel {
        generated: GeneratedKernel {
            function,
            parameters: parameters.len(),
        },
        parameters,
        layout,
        persistent,
        nullable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_other_parameters_is_an_error() {
        let generated = |text: &str| Generated {
            text: text.into(),
            parameters: vec![Parameter::Rows, Parameter::Bits],
            layout: Layout::of_program(4, 4),
            persistent_shared_bytes: None,
            nullable: vec![],
        };
        let check = |text: &str| check_parameters(&generated(text));
        assert!(check(".entry k(.param .u64 p0, .param .u64 p1) {}").is_ok());
        for text in [
            "",
            ".entry k(.param .u64 p0) {}",
            ".entry k(.param .u64 p0, .param .u32 p1) {}",
            ".entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {}",
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains("2 parameters of 64 bits"), "{error}");
        }
    }

    fn key(columns: usize) -> Key {
        Key {
            instructions: vec![],
            outputs: vec![],
            columns: vec![(Kind::Decimal, false); columns],
            form: Form::Map,
        }
    }

    #[test]
    fn programs_without_a_kernel_are_forgotten_those_asked_for_last_kept() {
        let compiled = Compiled::default();
        for i in 0..SEEN + 100 {
            compiled.entry(key(i));
            compiled.entry(key(0));
        }
        let programs = compiled.programs.lock();
        let mut entries: Vec<(&Key, u64)> = programs
            .entries
            .iter()
            .map(|(key, of)| (key, of.0))
            .collect();
        entries.sort_unstable_by_key(|(_, used)| *used);
        assert_eq!(entries.len(), SEEN);
        assert_eq!(entries.last().map(|(key, _)| *key), Some(&key(0)));
        let columns: Vec<usize> = entries.iter().map(|(key, _)| key.columns.len()).collect();
        assert!(columns[..SEEN - 1].is_sorted() && columns[0] == 101);
    }

    /// As many programs in turn as a workload may have.
    #[test]
    fn programs_that_are_asked_for_in_turn_are_known_again() {
        let compiled = Compiled::default();
        for round in 0..2 {
            for columns in 0..SEEN {
                let entry = compiled.entry(key(columns));
                let mut rows = entry.rows.lock();
                assert_eq!(*rows, round);
                *rows += 1;
            }
        }
    }
}
