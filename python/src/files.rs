//! Files by path or URL: which format, which options, and a table of them.
//!
//! ```text
//!  'events/*.csv.gz' ─► location: store, prefix, pattern ─► first file ─► format, compression ─► schema ─► table
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, UrlTableFactory};
use datafusion::common::{not_impl_err, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStoreExt};
use parking_lot::RwLock;

/// What is known of files besides where they are.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// As `FORMATS` names it; None: by the extension of the first file.
    pub format: Option<String>,
    /// Options of the format, by DataFusion's names.
    pub options: HashMap<String, String>,
    /// None: inferred.
    pub schema: Option<SchemaRef>,
}

/// Extensions, the format of each, and the delimiter that it implies.
const EXTENSIONS: [(&str, &str, Option<&str>); 12] = [
    ("parquet", "parquet", None),
    ("pq", "parquet", None),
    ("csv", "csv", None),
    ("tsv", "csv", Some("\t")),
    ("json", "json", None),
    ("ndjson", "json", None),
    ("jsonl", "json", None),
    ("avro", "avro", None),
    ("arrow", "arrow", None),
    ("ipc", "arrow", None),
    ("feather", "arrow", None),
    ("txt", "csv", None),
];

/// Extensions of compressed files, as DataFusion's readers take them.
const COMPRESSIONS: [(&str, &str); 4] = [
    ("gz", "gzip"),
    ("bz2", "bzip2"),
    ("xz", "xz"),
    ("zst", "zstd"),
];

/// The format of a file by its name.
struct Named {
    /// All of what follows the name, such as `csv.gz`.
    extension: String,
    format: Option<&'static str>,
    delimiter: Option<&'static str>,
    compression: Option<&'static str>,
}

impl Named {
    fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (stem, last) = name.rsplit_once('.').unwrap_or((name, ""));
        let compression = COMPRESSIONS
            .iter()
            .find(|(extension, _)| last.eq_ignore_ascii_case(extension));
        let inner = match compression {
            Some(_) => stem.rsplit_once('.').map_or("", |(_, inner)| inner),
            None => last,
        };
        let known = EXTENSIONS
            .iter()
            .find(|(extension, ..)| inner.eq_ignore_ascii_case(extension));
        let extension = match (compression.is_some(), inner) {
            (true, "") => last.to_string(),
            (true, inner) => format!("{inner}.{last}"),
            (false, inner) => inner.to_string(),
        };
        Self {
            extension,
            format: known.map(|(_, format, _)| *format),
            delimiter: known.and_then(|(.., delimiter)| *delimiter),
            compression: compression.map(|(_, name)| *name),
        }
    }
}

/// A table of all files at `paths`, which have the schema of the first one.
pub async fn table_of_files(
    state: &SessionState,
    paths: &[String],
    given: FileOptions,
) -> Result<Arc<dyn TableProvider>> {
    let urls: Vec<ListingTableUrl> = paths
        .iter()
        .map(|path| location(path))
        .collect::<Result<_>>()?;
    let Some((url, path)) = urls.first().zip(paths.first()) else {
        return plan_err!("no path was given: name at least one file or directory");
    };
    let first = first_file(state, url, path).await?;
    let named = Named::of(first.location.as_ref());

    let format = match (&given.format, named.format) {
        (Some(format), _) => format.to_ascii_lowercase(),
        (None, Some(format)) => format.to_string(),
        (None, None) => {
            return plan_err!(
                "the format of {path} cannot be told by the extension of {}: give it, such as format='csv'; formats are parquet, csv, json, \
                 avro and arrow",
                first.location
            );
        }
    };
    let factory = state.get_file_format_factory(&format).ok_or_else(|| {
        plan_datafusion_err!("there is no format '{format}': use parquet, csv, json, avro or arrow")
    })?;
    let mut options: HashMap<String, String> = given
        .options
        .iter()
        .map(|(name, value)| (format!("format.{name}"), value.clone()))
        .collect();
    if format == "csv" || format == "json" {
        let implied = [
            ("delimiter", named.delimiter.filter(|_| format == "csv")),
            ("compression", named.compression),
        ];
        for (name, value) in implied {
            if let Some(value) = value {
                options
                    .entry(format!("format.{name}"))
                    .or_insert_with(|| value.to_string());
            }
        }
    }
    if let Some(name) = given.options.keys().next()
        && (format == "avro" || format == "arrow")
    {
        return plan_err!("files of the format {format} have no option '{name}'");
    }

    let extension = match named.extension.as_str() {
        "" => String::new(),
        extension => format!(".{extension}"),
    };
    let listing =
        ListingOptions::new(factory.create(state, &options)?).with_file_extension(extension);
    let is_collection = url.is_collection();
    let mut config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(listing);
    if is_collection {
        config = config.infer_partitions_from_path(state).await?;
    }
    config = match given.schema {
        Some(schema) => config.with_schema(schema),
        None => config.infer_schema(state).await?,
    };
    let statistics = state.runtime_env().cache_manager.get_file_statistic_cache();
    Ok(Arc::new(
        ListingTable::try_new(config)?.with_cache(statistics),
    ))
}

/// A path or URL, whose last segments may be a pattern.
fn location(path: &str) -> Result<ListingTableUrl> {
    let Some((scheme, rest)) = path.split_once("://") else {
        return ListingTableUrl::parse(path);
    };
    if scheme.starts_with("http") && rest.contains('?') {
        return not_impl_err!("URLs with a query cannot be read: {path}");
    }
    let Some(wildcard) = rest.find(['*', '[']) else {
        return ListingTableUrl::parse(path);
    };
    if scheme.starts_with("http") {
        return not_impl_err!(
            "web servers list no files, so {path} cannot be read: name each file"
        );
    }
    let cut = scheme.len() + 3 + rest[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
    ListingTableUrl::parse(&path[..cut])?.with_glob(&path[cut..])
}

/// The first of the files at a location whose name does not begin with `_` or `.`.
async fn first_file(state: &SessionState, url: &ListingTableUrl, path: &str) -> Result<ObjectMeta> {
    let none = || {
        DataFusionError::IoError(io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no file at {path}"),
        ))
    };
    let store = state.runtime_env().object_store(url)?;
    if url.scheme().starts_with("http") {
        return match store.head(url.prefix()).await {
            Err(object_store::Error::NotFound { .. }) => Err(none()),
            other => Ok(other?),
        };
    }
    let files = url
        .list_all_files(state as &dyn Session, store.as_ref(), "")
        .await;
    let files = match files {
        Err(DataFusionError::ObjectStore(error))
            if matches!(*error, object_store::Error::NotFound { .. }) =>
        {
            return Err(none());
        }
        other => other?,
    };
    let shown = files.try_filter(|file| {
        let name = file.location.filename().unwrap_or_default();
        std::future::ready(!name.starts_with(['_', '.']))
    });
    shown.boxed().next().await.ok_or_else(none)?
}

/// Files that a query names in FROM: `FROM 'events.parquet'`.
#[derive(Debug)]
pub struct FilesByName {
    pub state: Weak<RwLock<SessionState>>,
}

#[async_trait]
impl UrlTableFactory for FilesByName {
    /// None if the name is that of a table which is not there.
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !name.contains('/') && Named::of(name).format.is_none() {
            return Ok(None);
        }
        let state = self
            .state
            .upgrade()
            .ok_or_else(|| plan_datafusion_err!("the connection is gone"))?;
        let state = state.read().clone();
        let table = table_of_files(&state, &[name.to_string()], FileOptions::default()).await?;
        Ok(Some(table))
    }
}
