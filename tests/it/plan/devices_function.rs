//! `bowtie_devices`.

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::UInt64Type;

use crate::support::snapshot::{run, session};

const COLUMNS: [&str; 12] = [
    "device",
    "name",
    "usable",
    "is_default",
    "memory_bytes",
    "free_bytes",
    "budget_bytes",
    "reserved_bytes",
    "compute_capability",
    "driver",
    "kernels",
    "reason",
];

#[tokio::test]
async fn devices_are_listed() {
    let context = session("auto").await;
    let batches = run(&context, "SELECT * FROM bowtie_devices()").await;
    let batches = batches.unwrap();
    let devices = concat_batches(&batches[0].schema(), &batches).unwrap();
    let names: Vec<String> = devices
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, COLUMNS);

    let text = |name: &str, row: usize| {
        let column = devices.column_by_name(name).unwrap().as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_string())
    };
    let flag = |name: &str, row: usize| {
        let column = devices.column_by_name(name).unwrap();
        column.as_boolean().value(row)
    };
    let bytes = |name: &str, row: usize| {
        let column = devices.column_by_name(name).unwrap();
        let column = column.as_primitive::<UInt64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let is_version = |text: &str| {
        text.split_once('.').is_some_and(|(major, minor)| {
            major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok()
        })
    };

    assert_eq!(text("device", 0).unwrap(), "host");
    assert!(text("name", 0).unwrap().ends_with(" threads"));
    assert!(flag("usable", 0));
    assert_eq!(text("kernels", 0).unwrap(), "Rust");
    for column in ["compute_capability", "driver", "reason"] {
        assert_eq!(text(column, 0), None, "{column}");
    }
    // Of a GPU too, if it can be used.
    let has_memory = |row: usize| {
        let [memory, free, budget, reserved] =
            [4, 5, 6, 7].map(|column| bytes(COLUMNS[column], row).unwrap());
        assert!(0 < free && free <= memory, "{free} of {memory} are free");
        assert!(budget > 0 && reserved <= budget, "{reserved} of {budget}");
    };
    has_memory(0);

    // Every GPU, or the reason why there is none.
    assert!(devices.num_rows() > 1);
    let mut usable = vec![];
    for row in 1..devices.num_rows() {
        let kernels = text("kernels", row).unwrap();
        let is_known = ["PTX", "none"].contains(&kernels.as_str());
        assert!(is_known || kernels.starts_with("SASS for "), "{kernels}");
        if text("name", row).unwrap() == "no GPU" {
            assert_eq!(devices.num_rows(), 2);
            assert_eq!(text("device", row).unwrap(), "cuda");
            assert!(!flag("usable", row));
            assert_eq!(bytes("memory_bytes", row), None);
        } else {
            assert_eq!(text("device", row).unwrap(), format!("cuda:{}", row - 1));
            assert!(bytes("memory_bytes", row).unwrap() > 0);
            for column in ["compute_capability", "driver"] {
                let version = text(column, row).unwrap();
                assert!(is_version(&version), "{column}: {version}");
            }
        }
        assert_eq!(text("reason", row).is_none(), flag("usable", row));
        if flag("usable", row) {
            usable.push(row);
            has_memory(row);
        }
    }
    // The first GPU that can be used, or the CPU backend.
    let default = usable.first().copied().unwrap_or_default();
    for row in 0..devices.num_rows() {
        assert_eq!(flag("is_default", row), row == default, "row {row}");
    }
}

#[tokio::test]
async fn an_argument_is_refused() {
    let context = session("auto").await;
    let error = context
        .sql("SELECT * FROM bowtie_devices(1)")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("takes no argument"), "{error}");
}
