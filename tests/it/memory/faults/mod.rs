//! Reservations, allocations, copies, launches and what a driver makes for them fail on purpose, each in turn: a query has DataFusion's rows all the same, or
//! an error that names what failed; nothing leaks, and the query after it has the rows.

use crate::memory::faults::queries::*;
use crate::memory::faults::sweep::{each_call, sweep, sweep_by_auto};
use datafusion_bowtie::Fault;

mod check;
mod queries;
mod sweep;

/// These run on an emulated GPU, too.
#[test]
fn few_joins() {
    sweep(&FEW_JOINS);
}

#[test]
fn few_others() {
    sweep(&FEW_OTHERS);
}

/// A device that fails before the first row: the nodes of DataFusion run.
#[test]
fn few_by_auto() {
    sweep_by_auto(&FEW_JOINS);
    sweep_by_auto(&FEW_OTHERS);
    sweep_by_auto(&PARTNERS);
}

/// One pass joins the sides, and flags their rows by a kernel of its own.
#[test]
fn outer_joins_whose_kernels_are_refused() {
    each_call(&OUTER, Fault::Load, 2);
}

#[test]
fn equi_joins() {
    sweep(&EQUI);
}

#[test]
fn theta_joins() {
    sweep(&THETA);
}

#[test]
fn set_joins() {
    sweep(&SETS);
}

#[test]
fn aggregates() {
    sweep(&AGGREGATES);
}

#[test]
fn intervals() {
    sweep(&INTERVALS);
}

#[test]
fn overlaps() {
    sweep(&OVERLAPS);
}

#[test]
fn rows() {
    sweep(&ROWS);
}

#[test]
fn sorts() {
    sweep(&SORTS);
}

#[test]
fn stored_columns() {
    sweep(STORED);
}

#[test]
fn partitions_and_files() {
    sweep(&LARGE);
}
