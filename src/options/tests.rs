//! Parsing, display and rejection of option values.

use crate::options::*;

#[test]
fn sizes_are_read_and_shown() {
    for (text, bytes, shown) in [
        ("8GB", 8 << 30, "8GB"),
        ("256mb", 256 << 20, "256MB"),
        ("1.5 GiB", 3 << 29, "1536MB"),
        ("2097152", 2 << 20, "2MB"),
    ] {
        let parsed: Bytes = text.parse().unwrap();
        assert_eq!(
            (parsed.0, parsed.to_string().as_str()),
            (Some(bytes), shown)
        );
    }
    for text in ["", "lots", "1KB", "-5GB", "8 XB", "1e300TB", "nan"] {
        let refusal = text.parse::<Bytes>().unwrap_err().to_string();
        assert!(
            refusal.contains("bowtie.device_memory cannot be"),
            "{refusal}"
        );
    }
}

#[test]
fn wrong_values_name_the_allowed_ones() {
    assert_eq!(
        "cuda:3".parse::<DeviceChoice>().unwrap(),
        DeviceChoice::Cuda(3)
    );
    assert!(
        "gpu"
            .parse::<DeviceChoice>()
            .unwrap_err()
            .to_string()
            .contains("cuda:N")
    );
    assert_eq!("CPU".parse::<DeviceChoice>().unwrap(), DeviceChoice::Host);
    assert!("cuda:x".parse::<DeviceChoice>().is_err());
    assert!(
        "maybe"
            .parse::<Offload>()
            .unwrap_err()
            .to_string()
            .contains("off, auto or force")
    );
    assert!(
        "iejoin"
            .parse::<ThetaStrategy>()
            .unwrap_err()
            .to_string()
            .contains("dominance")
    );
    assert_eq!(
        "PHJ".parse::<EquiJoinStrategy>().unwrap().to_string(),
        "partitioned_hash"
    );
    assert!(
        "nested_loop"
            .parse::<EquiJoinStrategy>()
            .unwrap_err()
            .to_string()
            .contains("sort_merge")
    );
    assert!("soon".parse::<MaterializationChoice>().is_err());
    assert!(
        "hash"
            .parse::<GroupStrategy>()
            .unwrap_err()
            .to_string()
            .contains("hash_shared, hash_global, partition, sort, sort_dict or runs")
    );
    assert!(
        "ppjoin"
            .parse::<SetStrategy>()
            .unwrap_err()
            .to_string()
            .contains("rarest or intersect")
    );
    assert!(
        "0".parse::<ChunkRows>()
            .unwrap_err()
            .to_string()
            .contains("from 1 to")
    );
}
