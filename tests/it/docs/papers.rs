//! The pages of the papers against the repository: the states of systems, and the options, metrics, files and tests that their rows name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use datafusion::common::config::ExtensionOptions;
use datafusion_bowtie::BowtieOptions;

use crate::docs::{names, values_of};

const PAGES: [(&str, &str); 4] = [
    ("theta", include_str!("../../../docs/papers/theta.md")),
    ("algebra", include_str!("../../../docs/papers/algebra.md")),
    (
        "groups-and-joins",
        include_str!("../../../docs/papers/groups-and-joins.md"),
    ),
    ("sets", include_str!("../../../docs/papers/sets.md")),
];

const STATES: [&str; 4] = ["works", "partly", "statement", "missing"];

/// What a system has where nothing is there.
const NOTHING: &str = "–";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What a text has in backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A row of a table of systems.
struct System<'a> {
    name: String,
    state: &'a str,
    here: &'a str,
    devices: &'a str,
    files: &'a str,
    tests: &'a str,
}

fn systems<'a>(page: &str, text: &'a str) -> Vec<System<'a>> {
    let (_, table) = text.split_once("\n## Systems\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let system = |row: &'a str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, state, here, devices, files, tests] = cells[..] else {
            panic!("{page}: {row} has {} cells", cells.len());
        };
        System {
            name: format!("{page}, {name}"),
            state,
            here,
            devices,
            files,
            tests,
        }
    };
    rows.map(system).collect()
}

fn all_systems() -> Vec<System<'static>> {
    let systems = PAGES.iter().flat_map(|(page, text)| systems(page, text));
    let systems: Vec<_> = systems.collect();
    assert!(systems.len() >= 86, "{} systems", systems.len());
    systems
}

#[test]
fn each_system_has_a_state() {
    for system in all_systems() {
        let name = &system.name;
        assert!(STATES.contains(&system.state), "{name}: {}", system.state);
        let devices = ["GPU", "CPU", "GPU, CPU", NOTHING];
        assert!(
            devices.contains(&system.devices),
            "{name}: {}",
            system.devices
        );
        match system.state {
            "works" | "partly" => {
                assert_ne!(system.devices, NOTHING, "{name}: devices");
                assert!(code(system.files).next().is_some(), "{name}: no file");
                assert!(code(system.tests).next().is_some(), "{name}: no test");
            }
            "missing" => assert_eq!([system.devices, system.tests], [NOTHING; 2], "{name}"),
            _ => {}
        }
    }
}

#[test]
fn files_and_tests_are_there() {
    for System {
        name, files, tests, ..
    } in all_systems()
    {
        for file in code(files) {
            assert!(root().join(file).exists(), "{name}: {file}");
        }
        for test in code(tests) {
            let (file, function) = test.split_once("::").unwrap();
            let text = fs::read_to_string(root().join(file));
            let text = text.unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            let (before, _) = text
                .split_once(&format!("fn {function}("))
                .unwrap_or_else(|| panic!("{name}: no {function} in {file}"));
            // Attributes stand directly above a function.
            let above = before.rsplit("\n\n").next().unwrap();
            assert!(
                above.contains("test]") || above.contains("test("),
                "{name}: {test}"
            );
        }
    }
}

/// Whether a word of a page is written as metrics are.
fn is_like_a_metric(word: &str) -> bool {
    let kinds = [
        "indexed_",
        "by_",
        "counted_",
        "folded_",
        "materialized_",
        "set_",
    ];
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    kinds.iter().any(|kind| word.starts_with(kind)) && word.chars().all(plain)
}

#[test]
fn options_and_metrics_are_there() {
    let options: BTreeSet<String> = BowtieOptions::default()
        .entries()
        .into_iter()
        .map(|entry| entry.key.trim_start_matches("bowtie.").to_string())
        .collect();
    let metrics = include_str!("../../../docs/reference/metrics.md");
    let metrics = names(metrics, "## Always shown", Some("## Of DataFusion"));
    let (mut settings, mut shown) = (0, 0);
    for System { name, here, .. } in all_systems() {
        for word in code(here) {
            if let Some(option) = word.strip_prefix("bowtie.") {
                let (option, value) = match option.split_once(" = ") {
                    Some((option, value)) => (option, Some(value.trim_matches('\''))),
                    None => (option, None),
                };
                assert!(options.contains(option), "{name}: no option {option}");
                if let Some(value) = value {
                    let mut of = BowtieOptions::default();
                    let taken = of.set(option, value);
                    assert!(taken.is_ok(), "{name}: {word}: {:?}", values_of(option));
                    settings += 1;
                }
            } else if is_like_a_metric(word) {
                assert!(metrics.contains(word), "{name}: no metric {word}");
                shown += 1;
            }
        }
    }
    assert!(
        settings > 20 && shown > 20,
        "{settings} settings, {shown} metrics"
    );
}
