//! `bowtie_devices`.

use crate::support::snapshot::session;

#[tokio::test]
async fn devices_are_listed() {
    let context = session("auto").await;
    let batches = context
        .sql("SELECT device, name, usable, is_default, kernels, reason FROM bowtie_devices() ORDER BY device DESC")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches)
        .unwrap()
        .to_string();
    assert!(text.contains("| host "), "{text}");
    // Every GPU, or the reason why there is none.
    assert!(
        text.contains("| cuda:0 ") || text.contains("| cuda   | no GPU "),
        "{text}"
    );
    let error = context
        .sql("SELECT * FROM bowtie_devices(1)")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("takes no argument"), "{error}");
}
