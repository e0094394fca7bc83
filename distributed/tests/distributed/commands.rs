//! The commands that run SQL.

use crate::cluster::{Executors, Workers, output};
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
