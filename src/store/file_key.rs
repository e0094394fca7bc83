//! [`FileColumn`]: a column of row groups of files, by all that its values depend on.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::ptr::addr_eq;
use std::sync::{Arc, Weak};

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::object_store::{ObjectMeta, ObjectStore};

/// Where files are: the URL of an object store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StoreId {
    url: Arc<str>,
    /// Sessions may register different stores under a URL that names no place in the world.
    instance: Option<StoreInstance>,
}

/// Schemes whose URL and path name the same object for every process on the machine.
const SCHEMES: [&str; 12] = [
    "file", "s3", "s3a", "gs", "gcs", "az", "adl", "abfs", "abfss", "wasb", "http", "https",
];

impl StoreId {
    pub(crate) fn new(url: &str, store: &Arc<dyn ObjectStore>) -> Self {
        let url = url.trim_end_matches('/');
        let scheme = url.split(':').next().unwrap_or_default();
        Self {
            instance: (!SCHEMES.contains(&scheme)).then(|| StoreInstance(Arc::downgrade(store))),
            url: url.into(),
        }
    }

    /// Whether `last_modified` is the time of a file system, which writes within a few milliseconds may share.
    fn is_file_system(&self) -> bool {
        self.url.starts_with("file:")
    }
}

/// The identity of an object store. The weak reference keeps its address from being used again.
#[derive(Debug, Clone)]
struct StoreInstance(Weak<dyn ObjectStore>);

impl PartialEq for StoreInstance {
    fn eq(&self, other: &Self) -> bool {
        addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }
}

impl Eq for StoreInstance {}

impl Hash for StoreInstance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().cast::<()>().addr().hash(state);
    }
}

/// A file as it was at some time: another content has another version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FileVersion {
    pub store: StoreId,
    pub path: Arc<str>,
    size: u64,
    /// Nanoseconds since 1970.
    last_modified: i64,
    e_tag: Option<String>,
    version: Option<String>,
}

/// The least age of a file whose time is in whole seconds, and of others, before it tells one content from another: a file that was
/// written a moment ago may be written again at what its file system takes for the same time.
const LEAST_AGE_NS: [i64; 2] = [2_000_000_000, 50_000_000];

impl FileVersion {
    /// `None` for a file with neither a time nor a tag, of which nothing can be known.
    pub(crate) fn new(store: &StoreId, object: &ObjectMeta) -> Option<Self> {
        let last_modified = object.last_modified.timestamp_nanos_opt()?;
        (last_modified > 0 || object.e_tag.is_some()).then(|| Self {
            store: store.clone(),
            path: object.location.as_ref().into(),
            size: object.size,
            last_modified,
            e_tag: object.e_tag.clone(),
            version: object.version.clone(),
        })
    }

    /// Whether another content would have another version, for a file that was found unchanged at `now`, in nanoseconds since 1970.
    pub(crate) fn is_settled(&self, now: i64) -> bool {
        let [seconds, finer] = LEAST_AGE_NS;
        let least = match self.last_modified % 1_000_000_000 {
            0 => seconds,
            _ => finer,
        };
        // A file system's tag is made of the time.
        let tagged = self.e_tag.is_some() || self.version.is_some();
        tagged && !self.store.is_file_system() || now.saturating_sub(self.last_modified) >= least
    }

    /// Whether it may have taken the place of another version.
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        self.store == other.store && self != other && self.last_modified >= other.last_modified
    }

    /// Where the file is.
    pub(crate) fn place(&self) -> FilePlace {
        FilePlace {
            url: Arc::clone(&self.store.url),
            path: Arc::clone(&self.path),
        }
    }
}

/// Where a file is: the URL of its object store, and its path there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FilePlace {
    pub url: Arc<str>,
    pub path: Arc<str>,
}

/// Row groups of a file, with the file's value of the column if that is one of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FileRows {
    pub file: Arc<FileVersion>,
    pub row_groups: Range<usize>,
    pub partition_value: Option<ScalarValue>,
}

/// A column of row groups of files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FileColumn {
    pub rows: Box<[FileRows]>,
    pub name: Arc<str>,
    /// The type that a table gives the values.
    pub data_type: DataType,
    pub nullable: bool,
    /// Options of the reader that values depend on.
    pub reader: Arc<str>,
}

impl FileColumn {
    /// Whether a store is gone, so that nobody can ask for the column.
    pub(crate) fn is_dead(&self) -> bool {
        self.rows.iter().any(|rows| {
            let instance = rows.file.store.instance.as_ref();
            instance.is_some_and(|instance| instance.0.strong_count() == 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::object_store::memory::InMemory;
    use datafusion::object_store::path::Path;

    use super::*;

    fn object(seconds: i64, nanoseconds: i64, e_tag: Option<&str>) -> ObjectMeta {
        let now = std::time::SystemTime::UNIX_EPOCH
            + std::time::Duration::from_nanos((seconds * 1_000_000_000 + nanoseconds) as u64);
        ObjectMeta {
            location: Path::from("a/b.parquet"),
            last_modified: now.into(),
            size: 7,
            e_tag: e_tag.map(String::from),
            version: None,
        }
    }

    #[test]
    fn another_content_has_another_version() {
        let stores: [Arc<dyn ObjectStore>; 2] = [(); 2].map(|()| Arc::new(InMemory::new()) as _);
        let version = |url, store: usize, object: &ObjectMeta| {
            FileVersion::new(&StoreId::new(url, &stores[store]), object)
        };
        let known = object(100, 5, None);
        assert_eq!(
            version("file:///", 0, &known),
            version("file://", 1, &known)
        );
        assert_ne!(
            version("memory://x", 0, &known),
            version("memory://x", 1, &known)
        );
        let others = [
            object(101, 5, None),
            object(100, 6, None),
            object(100, 5, Some("e")),
            ObjectMeta {
                size: 8,
                ..known.clone()
            },
            ObjectMeta {
                version: Some("v".into()),
                ..known.clone()
            },
            ObjectMeta {
                location: Path::from("a/c.parquet"),
                ..known.clone()
            },
        ];
        for other in &others {
            assert_ne!(
                version("file:///", 0, &known),
                version("file:///", 0, other)
            );
        }
        assert_eq!(version("file:///", 0, &object(0, 0, None)), None);
        assert!(version("file:///", 0, &object(0, 0, Some("e"))).is_some());
    }

    #[test]
    fn a_file_of_this_moment_may_change_unnoticed() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let version = |url, nanoseconds| {
            FileVersion::new(&StoreId::new(url, &store), &object(100, nanoseconds, None)).unwrap()
        };
        let at = |milliseconds: i64| 100_000_000_000 + milliseconds * 1_000_000;
        assert!(!version("file:///", 1).is_settled(at(20)));
        assert!(version("file:///", 1).is_settled(at(60)));
        assert!(!version("file:///", 0).is_settled(at(60)));
        assert!(version("file:///", 0).is_settled(at(2_000)));
        // A store that gives no tag has times only, another one's tag tells contents apart.
        assert!(!version("s3://bucket", 0).is_settled(at(60)));
        let tagged = object(100, 0, Some("a"));
        let tagged = FileVersion::new(&StoreId::new("s3://bucket", &store), &tagged).unwrap();
        assert!(tagged.is_settled(at(0)));
    }

    #[test]
    fn a_column_dies_with_its_store() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let file = FileVersion::new(&StoreId::new("memory://x", &store), &object(1, 1, None));
        let column = FileColumn {
            rows: Box::new([FileRows {
                file: Arc::new(file.unwrap()),
                row_groups: 0..2,
                partition_value: None,
            }]),
            name: "k".into(),
            data_type: DataType::Int64,
            nullable: true,
            reader: "".into(),
        };
        assert!(!column.is_dead());
        drop(store);
        assert!(column.is_dead());
    }
}
