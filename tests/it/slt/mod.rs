//! DataFusion's own SQL tests, run through a session that offloads every node it can.
//!
//! The files come with the published crate `datafusion-sqllogictest`. Each runs in upstream's own context for it, with
//! bowtie added. What is left out is listed, with reasons, in [`lists`]. A record that fails is run again without offload,
//! to tell a failure of bowtie from one of the environment.
//!
//! `BOWTIE_SLT_DIR` may name another copy of the crate (a checkout of DataFusion has its data files too), and
//! `BOWTIE_SLT_FILES` a comma-separated choice of files.

mod engine;
mod files;
mod lists;
mod locate;
mod report;
mod run;
mod tpch_data;

use std::time::Instant;

use futures::StreamExt;

use self::report::Total;
use self::run::run_file;
use crate::support::session::Rule;

/// Files that run at once.
const AT_ONCE: usize = 2;

#[test]
fn upstream_files_give_the_same_answers() {
    run_by(Rule::of_tests());
}

/// As on workers, in plans that are cut at their exchanges.
#[test]
fn upstream_files_give_the_same_answers_in_stages() {
    run_by(Rule::CutStages);
}

fn run_by(rule: Rule) {
    let root = match locate::crate_directory() {
        Ok(root) => root,
        // Only programs that were taken to another machine have no cargo around them.
        Err(why) => {
            assert!(
                std::env::var_os("CARGO").is_none(),
                "datafusion-sqllogictest's test files were not found: {why}"
            );
            println!("skipped: datafusion-sqllogictest's test files were not found: {why}");
            return;
        }
    };
    let chosen = std::env::var("BOWTIE_SLT_FILES").ok();
    let files: Vec<String> = match &chosen {
        Some(chosen) => chosen.split(',').map(|f| f.trim().to_string()).collect(),
        None => files::files(&root).unwrap(),
    };
    // DataFusion's planner recurses deeply, and more so without optimisation.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(16 << 20)
        .enable_all()
        .build()
        .unwrap();
    let started = Instant::now();
    let outcomes: Vec<_> = runtime.block_on(
        futures::stream::iter(files)
            .map(|file| tokio::spawn(run_file(root.clone(), file, rule)))
            .buffered(AT_ONCE)
            .map(|outcome| outcome.unwrap())
            .collect(),
    );
    let total = Total::of(&outcomes);
    println!("{total}\n{:.1} s", started.elapsed().as_secs_f64());
    total.expect_no_failures();
    if chosen.is_none() {
        total.expect_that_much_was_tested(rule);
    }
}
