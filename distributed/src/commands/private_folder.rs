//! The folder of an executor's files, which are rows of queries: no other user may read or replace them.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};

/// Makes the folder, or checks the one that is there.
///
/// # Errors
/// If the folder cannot be made, belongs to another user, or is open to others.
pub(crate) fn private(folder: &Path) -> Result<PathBuf, String> {
    let failed =
        |error: io::Error| format!("the folder {} cannot be used: {error}", folder.display());
    let mut new = DirBuilder::new();
    new.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut new, 0o700);
    new.create(folder).map_err(failed)?;
    #[cfg(unix)]
    check(folder, failed)?;
    let path = fs::canonicalize(folder).map_err(failed)?;
    #[cfg(unix)]
    check_above(&path, failed)?;
    Ok(path)
}

#[cfg(unix)]
fn check(folder: &Path, failed: impl Fn(io::Error) -> String) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    // This user owns what it makes.
    let own = tempfile::tempfile().and_then(|file| file.metadata());
    let own = own.map_err(&failed)?.uid();
    let found = fs::metadata(folder).map_err(&failed)?;
    // Whoever owns a link can let it lead elsewhere later.
    let link = fs::symlink_metadata(folder).map_err(&failed)?;
    if found.uid() != own || link.uid() != own {
        return Err(format!(
            "the folder {} belongs to another user, who could read and replace the rows of queries there: name a new folder by --work-dir",
            folder.display()
        ));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "other users have access to the folder {} (mode {mode:o}), and rows of queries are written there: run chmod 700 on it, or name a new folder by --work-dir",
            folder.display()
        ));
    }
    Ok(())
}

/// Whoever may write into a folder above can put another one in the place of this one.
#[cfg(unix)]
fn check_above(folder: &Path, failed: impl Fn(io::Error) -> String) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    const STICKY: u32 = 0o1000;
    for above in folder.ancestors().skip(1) {
        let mode = fs::metadata(above).map_err(&failed)?.mode();
        if mode & 0o022 != 0 && mode & STICKY == 0 {
            return Err(format!(
                "other users may replace the folder {}, as they may write into {} (mode {:o}): name a folder elsewhere by --work-dir",
                folder.display(),
                above.display(),
                mode & 0o7777
            ));
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    fn mode(folder: &Path) -> u32 {
        fs::metadata(folder).unwrap().mode() & 0o777
    }

    #[test]
    fn new_folders_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("above/executor");
        let made = private(&folder).unwrap();
        assert!(made.ends_with("above/executor"), "{}", made.display());
        assert_eq!(
            (mode(&folder), mode(folder.parent().unwrap())),
            (0o700, 0o700)
        );
        // The folder of an executor that is started again, and a link to it.
        assert_eq!(private(&folder).unwrap(), made);
        let link = directory.path().join("link");
        symlink(&folder, &link).unwrap();
        assert_eq!(private(&link).unwrap(), made);
    }

    #[test]
    fn folders_that_are_open_to_others_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("executor");
        fs::create_dir(&folder).unwrap();
        for open in [0o755, 0o750, 0o770, 0o702, 0o701] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(open)).unwrap();
            let error = private(&folder).unwrap_err();
            let expected = [
                folder.to_str().unwrap(),
                &format!("mode {open:o}"),
                "chmod 700",
            ];
            for part in expected {
                assert!(error.contains(part), "{open:o}: {error}");
            }
            // It is left as it was.
            assert_eq!(mode(&folder), open);
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        private(&folder).unwrap();
    }

    #[test]
    fn folders_of_other_users_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let given_away = directory.path().join("executor");
        fs::create_dir(&given_away).unwrap();
        fs::set_permissions(&given_away, fs::Permissions::from_mode(0o700)).unwrap();
        // Only root gives a folder away; for everybody else root is another user.
        let folder = match chown(&given_away, Some(1), None) {
            Ok(()) => given_away,
            Err(_) => PathBuf::from("/"),
        };
        let error = private(&folder).unwrap_err();
        assert!(
            error.contains("another user") && error.contains("--work-dir"),
            "{error}"
        );
    }

    #[test]
    fn files_are_no_folders() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = private(file.path()).unwrap_err();
        assert!(error.contains("cannot be used"), "{error}");
    }
}
