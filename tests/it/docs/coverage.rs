//! The messages of the Rust sources against the pages that quote them: none is missing there.

use std::path::Path;

use crate::docs::messages::{PAGES, messages};
use crate::docs::sources::{Literal, MEMBERS, files, literals, messages_of_python, text_of};

/// Folders and files of the library whose texts are messages, unless [`NO_MESSAGES`] has them.
const OF_MESSAGES: [&str; 13] = [
    "cli/src/size.rs",
    "python/src",
    "src/error.rs",
    "src/options",
    "src/options.rs",
    "src/plan",
    "src/report/build.rs",
    "src/report/explain.rs",
    "src/report/plan_report.rs",
    "src/report/why.rs",
    "src/runtime",
    "src/session.rs",
    "src/spec/join.rs",
];

/// What makes an error, a reason or a line of the log of the text behind it, anywhere.
const MAKERS: [&str; 24] = [
    "Err(",
    "Error::new(",
    "external(",
    "to_python(",
    "Decline(",
    "because(",
    "decline(",
    "BowtieError::Device(",
    "DataFusionError::Configuration(",
    "DataFusionError::Execution(",
    "DataFusionError::NotImplemented(",
    "DataFusionError::Plan(",
    "config_err!(",
    "config_datafusion_err!(",
    "exec_err!(",
    "exec_datafusion_err!(",
    "not_impl_err!(",
    "plan_err!(",
    "plan_datafusion_err!(",
    "log::debug!(",
    "log::error!(",
    "log::info!(",
    "log::warn!(",
    "Error::new_err(",
];

/// Files of tests that have other names, and of faults that tests ask for.
const OF_TESTS: [&str; 4] = [
    "src/device/faults.rs",
    "src/plan/choose/policy/recognised_once.rs",
    "src/plan/choose/policy/timing.rs",
    "src/plan/choose/policy/tpch.rs",
];

/// Texts in [`OF_MESSAGES`] that nobody reads as a message, by what they begin with.
const NO_MESSAGES: [&str; 15] = [
    // An attribute of a lint.
    "Python's name",
    // Files of the operating system.
    "/sys/fs/cgroup/memory.max",
    // Of plans and reports.
    "The same options with another value of `bowtie.",
    "none of {} runs on a device",
    "{} of {} {verb} on {device}",
    "; {bytes} of columns to send",
    "; joins, aggregations and sorts are estimated at",
    "; estimated at {rows} rows",
    // Of the file of measured rates, and of the machines there.
    "{cpu}, {cores} cores",
    "{name}, compute capability {compute_capability}, CUDA {driver}",
    "datafusion-bowtie rates 1",
    // Users never see these.
    "bowtie: DataFusion has to evaluate this expression",
    "bowtie: the query was cancelled",
    "{what}, which the recognised plan contradicts",
    "{} asks for other inputs' statistics than it has",
];

/// Fewer words are no message.
const LEAST_WORDS: usize = 3;

/// The words of a text without what differs in it: in braces in a source; `…`, a number or a capital letter on a page.
fn words(text: &str) -> Vec<String> {
    let mut fixed = String::new();
    let mut depth = 0;
    for character in text.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 0 => fixed.push(character),
            _ => {}
        }
    }
    let words = fixed.split(|c: char| !c.is_alphanumeric() && c != '_');
    words
        .filter(|word| word.chars().any(char::is_lowercase) || word.len() > 1)
        .filter(|word| !word.chars().all(|c| c.is_ascii_digit()))
        .map(str::to_string)
        .collect()
}

/// Words of a page's message between two of a source's text, at most: what differs has some.
const MOST_BETWEEN: usize = 6;

/// Whether a message of a page says all that a text of the sources does, in its order and close together. The text may be a part of the message.
/// Where the message ends with `…`, the end of the text may be left out.
fn says(page: &str, source: &[String]) -> bool {
    let on_page = words(page);
    (0..on_page.len()).any(|from| is_said(&on_page[from..], page.ends_with('…'), source))
}

/// The same of a message that begins as the text does.
fn is_said(on_page: &[String], is_open: bool, source: &[String]) -> bool {
    let mut rest = on_page;
    for (i, word) in source.iter().enumerate() {
        let near = match i {
            0 => 1,
            _ => MOST_BETWEEN + 1,
        };
        match rest.iter().take(near).position(|other| other == word) {
            Some(at) => rest = &rest[at + 1..],
            None => return is_open && rest.is_empty() && i >= LEAST_WORDS,
        }
    }
    true
}

/// Whether users read the literal: it stands where messages are made, or behind what makes one.
fn is_message(file: &Path, literal: &Literal<'_>) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if OF_TESTS.iter().any(|test| file == root.join(test)) {
        return false;
    }
    let before = literal.before.trim_end();
    let before = before.strip_suffix("format!(").unwrap_or(before).trim_end();
    if MAKERS.iter().any(|maker| before.ends_with(maker)) {
        return true;
    }
    let is_inside = OF_MESSAGES
        .iter()
        .any(|place| file.starts_with(root.join(place)));
    // Defects: one row of the page has them all. The others are not shown at all.
    let is_internal = [
        "Internal(",
        "internal(",
        "unrecognised(",
        "reason = ",
        "expect(",
        "debug_assert!(",
    ];
    is_inside
        && !is_internal.iter().any(|maker| before.ends_with(maker))
        && !NO_MESSAGES
            .iter()
            .any(|text| literal.value.starts_with(text))
}

#[test]
fn every_message_of_the_sources_is_on_a_page() {
    let on_pages: Vec<_> = PAGES.iter().flat_map(|(_, page)| messages(page)).collect();
    let mut count = 0;
    let mut missing = vec![];
    for file in MEMBERS.iter().flat_map(|member| files(member)) {
        let text = text_of(&file);
        for literal in literals(&text) {
            let source = words(&literal.value);
            if source.len() < LEAST_WORDS || !is_message(&file, &literal) {
                continue;
            }
            count += 1;
            if !on_pages.iter().any(|page| says(page, &source)) {
                missing.push(format!("{}: {}", file.display(), literal.value));
            }
        }
    }
    let (of_python, raised) = messages_of_python();
    assert!(raised.is_empty(), "{raised:#?} raise no message");
    for message in of_python {
        let source = words(&message);
        if source.len() >= LEAST_WORDS {
            count += 1;
            if !on_pages.iter().any(|page| says(page, &source)) {
                missing.push(format!("python/datafusion_bowtie: {message}"));
            }
        }
    }
    assert!(count > 200, "only {count} messages are found");
    assert!(
        missing.is_empty(),
        "{} of {count} messages are on no page: {missing:#?}",
        missing.len()
    );
}

#[test]
fn a_message_that_is_on_no_page_is_found() {
    let page = "it has only L × R pairs of rows: bowtie gains nothing up to 65536";
    let source = |text| words(text);
    assert!(says(
        page,
        &source("it has only {left} × {right} pairs of rows: bowtie gains nothing up to {FEW}")
    ));
    assert!(!says(
        page,
        &source("it has only {left} × {right} pairs of keys")
    ));
    assert!(!says(
        page,
        &source("bowtie gains nothing up to {FEW} of its own")
    ));
    assert!(says(
        "there is no option bowtie.O: use one of …",
        &source("there is no option bowtie.{key}: use one of {}")
    ));
    assert!(!says(
        "its condition is volatile",
        &source("its condition is volatile: compute it in a subquery")
    ));
    let text = "fn f() { return Err(DataFusionError::Plan(format!(\n    \"a message of three words\"))); let name = \"no message at all\"; }";
    let file = Path::new("exec/join.rs");
    let found: Vec<_> = literals(text)
        .into_iter()
        .filter(|literal| is_message(file, literal))
        .map(|literal| literal.value)
        .collect();
    assert_eq!(found, ["a message of three words"]);
}
