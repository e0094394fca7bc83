//! The commands that run SQL, and what the others refuse to expose.

use datafusion::arrow::util::pretty::pretty_format_batches;

use crate::cluster::{Executors, Workers, output, refusal, warning};
use crate::data;
use crate::workers::single_node;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_may_name_files() {
    let folder = data::write();
    let sql = |points: &str, spans: &str| {
        format!(
            "SELECT count(*) AS pairs FROM {points} p JOIN {spans} s ON p.at BETWEEN s.start AND s.stop"
        )
    };
    // One process, without bowtie.
    let single = single_node();
    data::register(&single, folder.path()).await.unwrap();
    let rows = single.sql(&sql("points", "spans")).await.unwrap();
    let rows = rows.collect().await.unwrap();
    let expected = format!("{}\n", pretty_format_batches(&rows).unwrap());
    let pairs = expected.lines().nth(3).unwrap().trim_matches([' ', '|']);
    assert!(pairs.parse::<u64>().unwrap() > 0, "{expected}");

    let file = |table: &str| format!("'{}'", folder.path().join(table).display());
    let sql = sql(&file("points.parquet"), &file("spans.parquet"));
    let workers = Workers::start(&[&[], &[]]);
    let urls: Vec<&str> = workers.urls.iter().map(|url| url.as_str()).collect();
    let urls = urls.join(",");
    let executors = Executors::start(folder.path(), &[&[], &[]]);
    let commands: [[&str; 5]; 2] = [
        ["coordinator", "--workers", &urls, "-c", &sql],
        ["client", "--scheduler", &executors.url, "-c", &sql],
    ];
    for arguments in commands {
        assert_eq!(output(&arguments), expected, "{arguments:?}");
    }
}

/// `SET` and `RESET` of options act on the session of this process, and ask no scheduler.
#[test]
fn files_have_statements_that_set_and_reset_options() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("statements.sql");
    let statements = "-- first;\nSET bowtie.offload = 'force'; SHOW bowtie.offload;\n/* then;\n */ RESET bowtie.offload;\nSHOW bowtie.offload";
    std::fs::write(&file, statements).unwrap();
    let file = file.to_str().unwrap();
    let workers = Workers::start(&[&[]]);
    let sessions = [
        ["coordinator", "--workers", workers.urls[0].as_str()],
        ["client", "--scheduler", "df://127.0.0.1:1"],
    ];
    for session in sessions {
        let printed = output(&[&session[..], &["-f", file]].concat());
        let shown = printed
            .lines()
            .filter(|line| line.contains("bowtie.offload"));
        let expected = ["| bowtie.offload | force |", "| bowtie.offload | auto  |"];
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{session:?}");
        let error = refusal(&[&session[..], &["-c", "RESET bowtie.ofload"]].concat());
        assert!(
            error.contains("there is no option bowtie.ofload"),
            "{error}"
        );
    }
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
