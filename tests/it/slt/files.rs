//! Which files run: all that upstream's folder `test_files` has, but those of [`LEFT_OUT`].

use std::path::Path;

/// A file that does not run, and why.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub file: &'static str,
    pub why: &'static str,
}

/// In upstream's `test_files`.
pub(super) const LEFT_OUT: &[LeftOut] = &[LeftOut {
    file: "avro.slt",
    why: "needs DataFusion's feature avro",
}];

/// The files below `root`'s folder `test_files`, in the order of their names.
pub(super) fn files(root: &Path) -> std::io::Result<Vec<String>> {
    let folder = root.join("test_files");
    let mut found = vec![];
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "slt") {
                found.push(path);
            }
        }
    }
    let name = |path: &std::path::PathBuf| {
        let parts = path.strip_prefix(&folder).into_iter().flatten();
        let parts: Vec<_> = parts.map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    };
    let mut found: Vec<String> = found.iter().map(name).collect();
    found.retain(|file| !LEFT_OUT.iter().any(|left| left.file == file));
    found.sort_unstable();
    Ok(found)
}
