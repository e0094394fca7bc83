//! How many tests must pass where they are copied to a GPU, or run on an emulated one, against those of the sources: a group that loses tests fails.

use std::fs;
use std::path::{Path, PathBuf};

const ON_GPU: &str = include_str!("../../../scripts/gpu-run.sh");
const EMULATED: &str = include_str!("../../../scripts/emulated_tests.sh");

/// The name of the module that is left out on a GPU, as it reads sources.
const DOCS: &str = "docs";

/// The tests of a folder of the repository.
fn tests_of(folder: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths: Vec<PathBuf> = vec![root.join(folder)];
    let mut tests = 0;
    while let Some(path) = paths.pop() {
        if path.file_stem().is_some_and(|stem| stem == DOCS) {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().map(str::trim_start);
            let attributes = ["#[test]", "#[tokio::test"];
            tests += lines
                .filter(|line| attributes.iter().any(|test| line.starts_with(test)))
                .count();
        }
    }
    tests
}

/// The number behind `name`, the first one in `script`.
fn number(script: &str, name: &str) -> usize {
    let (_, rest) = script.split_once(name).unwrap_or_else(|| panic!("{name}"));
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let number = &rest[..end.unwrap_or(rest.len())];
    number.parse().unwrap_or_else(|_| panic!("{name}{number}"))
}

#[test]
fn minimums_are_close_to_the_tests() {
    let (_, twins) = EMULATED.split_once("    twins)\n").unwrap();
    for (folder, script, name) in [
        ("src", ON_GPU, "[unit-tests]="),
        ("tests/it", ON_GPU, "[integration-tests]="),
        ("cli/tests", ON_GPU, "[shell-tests]="),
        ("distributed/src", ON_GPU, "[worker-unit-tests]="),
        ("distributed/tests", ON_GPU, "[worker-tests]="),
        ("src/device/cuda/tests", twins, "minimum="),
    ] {
        let (tests, minimum) = (tests_of(folder), number(script, name));
        assert!(
            minimum <= tests && tests - minimum <= (tests / 10).max(2),
            "{name}{minimum}, and {folder} has {tests} tests"
        );
    }
}
