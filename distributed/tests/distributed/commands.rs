//! The commands that run SQL, and what the others refuse to expose.

use crate::cluster::{Executors, Workers, output, refusal, warning};
use crate::data;

#[test]
fn statements_may_name_files() {
    let folder = data::write();
    let path = |table: &str| folder.path().join(format!("{table}.parquet"));
    let sql = format!(
        "SELECT count(*) AS pairs FROM '{}' p JOIN '{}' s ON p.at BETWEEN s.start AND s.stop",
        path("points").display(),
        path("spans").display()
    );
    let workers = Workers::start(&[&[], &[]]);
    let urls: Vec<&str> = workers.urls.iter().map(|url| url.as_str()).collect();
    let executors = Executors::start(folder.path(), &[&[], &[]]);
    let answers = [
        output(&["coordinator", "--workers", &urls.join(","), "-c", &sql]),
        output(&["client", "--scheduler", &executors.url, "-c", &sql]),
    ];
    assert!(answers[0].contains("pairs"), "{answers:?}");
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn other_machines_are_served_on_purpose_only() {
    let all = "0.0.0.0:0";
    let cases: [(&[&str], &str); 4] = [
        (&["worker", "--listen", all], all),
        (&["scheduler", "--listen", all], all),
        (&["worker", "--listen", "[::]:7001"], "[::]:7001"),
        (
            &["executor", "--bind", "0.0.0.0", "--port", "7001"],
            "0.0.0.0:7001 and 0.0.0.0:7002",
        ),
    ];
    for (arguments, address) in cases {
        let error = refusal(arguments);
        assert!(
            error.contains(address) && error.contains("--insecure"),
            "{error}"
        );
    }
    for command in ["worker", "scheduler"] {
        let (line, address) = warning(&[command, "--listen", all, "--insecure"]);
        assert!(
            line.starts_with("WARNING: ") && line.contains(all),
            "{line}"
        );
        assert!(address.contains("0.0.0.0:"), "{address}");
    }
}

#[cfg(unix)]
#[test]
fn the_folder_of_an_executor_is_its_own() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("executor");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let folder = folder.to_str().unwrap();
    let error = refusal(&["executor", "--work-dir", folder]);
    assert!(
        error.contains(folder) && error.contains("chmod 700"),
        "{error}"
    );
}
