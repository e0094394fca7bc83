//! The commands that run SQL.

use datafusion::arrow::util::pretty::pretty_format_batches;

use crate::cluster::{Executors, Workers, output};
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
