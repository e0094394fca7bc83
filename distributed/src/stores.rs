//! [`LazyStores`]: object stores, made when a URL first names one, by the credentials of the environment or of options.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{config_err, not_impl_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreRegistry;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, ObjectStore};
use parking_lot::RwLock;
use url::{Position, Url};

/// The stores of a session: files of this machine, S3, Google Cloud, Azure, and HTTP. Give it to
/// `RuntimeEnvBuilder::with_object_store_registry`.
///
/// # Errors
/// A URL of another scheme is an error of the query that names it, as are credentials that are missing, and `http://` URLs unless
/// [`with_allow_http`](Self::with_allow_http) allows them.
#[derive(Debug)]
pub struct LazyStores {
    made: RwLock<HashMap<String, Arc<dyn ObjectStore>>>,
    options: Vec<(String, String)>,
    allow_http: bool,
}

impl LazyStores {
    /// Stores with `options` by the builders' names, such as `aws_region`: they precede those of the environment, such as `AWS_REGION`.
    pub fn new(options: Vec<(String, String)>) -> Self {
        let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        Self {
            made: RwLock::new(HashMap::from([("file://".to_string(), local)])),
            options,
            allow_http: false,
        }
    }

    /// Whether `http://` URLs are read, too; by default they are not. A process that runs the plans of others would reach by them what those cannot
    /// reach: services of its machine and of its network. Files that come by them may be read and altered on their way.
    pub fn with_allow_http(mut self, allow_http: bool) -> Self {
        self.allow_http = allow_http;
        self
    }

    fn make(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        /// Options that the builder does not know belong to another kind of store.
        macro_rules! with_options {
            ($builder:expr) => {
                self.options
                    .iter()
                    .fold($builder, |builder, (name, value)| {
                        match name.to_ascii_lowercase().parse() {
                            Ok(key) => builder.with_config(key, value),
                            Err(_) => builder,
                        }
                    })
            };
        }
        let origin = &url[..Position::BeforePath];
        Ok(match url.scheme() {
            "http" if !self.allow_http => {
                return config_err!(
                    "{origin} is not read, as http:// has no encryption: use https://, or start this process with --allow-http (in a program: LazyStores::with_allow_http)"
                );
            }
            "s3" | "s3a" => {
                Arc::new(with_options!(AmazonS3Builder::from_env().with_url(origin)).build()?)
            }
            "gs" | "gcs" => {
                let bucket = url.host_str().unwrap_or_default();
                Arc::new(
                    with_options!(GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket))
                        .build()?,
                )
            }
            "az" | "adl" | "azure" | "abfs" | "abfss" => {
                Arc::new(with_options!(MicrosoftAzureBuilder::from_env().with_url(origin)).build()?)
            }
            "http" | "https" => {
                let client = ClientOptions::new().with_allow_http(self.allow_http);
                let builder = HttpBuilder::new()
                    .with_url(origin)
                    .with_client_options(client);
                Arc::new(with_options!(builder).build()?)
            }
            scheme => {
                return not_impl_err!(
                    "URLs that begin with {scheme}:// cannot be read: use a path, or file://, s3://, gs://, az://, abfss://, http:// or https://"
                );
            }
        })
    }
}

/// The part of a URL that names its store: other than DataFusion's own registry, with the container of `abfss://container@account`.
fn key(url: &Url) -> String {
    url[..Position::BeforePath].to_string()
}

impl ObjectStoreRegistry for LazyStores {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.made.write().insert(key(url), store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let store = self.made.write().remove(&key(url));
        store.ok_or_else(|| {
            DataFusionError::Configuration(format!("no object store has been used for {url}"))
        })
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let key = key(url);
        if let Some(store) = self.made.read().get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = self.make(url)?;
        // Another thread may have been sooner: one store for all.
        Ok(Arc::clone(self.made.write().entry(key).or_insert(store)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(stores: &LazyStores, url: &str) -> Result<Arc<dyn ObjectStore>> {
        stores.get_store(&url.parse().unwrap())
    }

    #[test]
    fn plain_http_is_off_by_default() {
        let stores = LazyStores::new(vec![]);
        let error = store(&stores, "http://169.254.169.254/latest/meta-data");
        let error = error.unwrap_err().to_string();
        for part in ["http://169.254.169.254", "https://", "--allow-http"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(store(&stores, "https://example.org/a.parquet").is_ok());
        let stores = LazyStores::new(vec![]).with_allow_http(true);
        assert!(store(&stores, "http://127.0.0.1:9/a.parquet").is_ok());
        assert!(store(&stores, "https://example.org/a.parquet").is_ok());
    }

    /// A store is made without a request.
    #[test]
    fn each_scheme_has_its_store() {
        let options = [
            ("aws_region", "eu-central-1"),
            ("aws_skip_signature", "true"),
            ("google_skip_signature", "true"),
            ("azure_storage_account_name", "account"),
            ("azure_skip_signature", "true"),
        ];
        let options = options.map(|(name, value)| (name.to_string(), value.to_string()));
        let stores = LazyStores::new(options.to_vec());
        let azure = |account: &str, container: &str| {
            format!("MicrosoftAzure {{ account: {account}, container: {container} }}")
        };
        for (url, expected) in [
            ("s3://bucket/a.parquet", "AmazonS3(bucket)".to_string()),
            ("s3a://bucket/a.parquet", "AmazonS3(bucket)".into()),
            ("gs://bucket/a.parquet", "GoogleCloudStorage(bucket)".into()),
            ("gcs://other/a.parquet", "GoogleCloudStorage(other)".into()),
            ("az://box/a.parquet", azure("account", "box")),
            ("azure://box/a.parquet", azure("account", "box")),
            ("abfs://box/a.parquet", azure("account", "box")),
            (
                "abfss://box@other.dfs.core.windows.net/a.parquet",
                azure("other", "box"),
            ),
            (
                "abfss://second@other.dfs.core.windows.net/a.parquet",
                azure("other", "second"),
            ),
            ("https://example.org/a.parquet", "HttpStore".into()),
            ("file:///a.parquet", "LocalFileSystem(file:///)".into()),
        ] {
            let made = store(&stores, url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(made.to_string(), expected, "{url}");
            let again = store(&stores, &url.replace("a.parquet", "b/c.csv")).unwrap();
            assert!(Arc::ptr_eq(&made, &again), "{url} has two stores");
        }
    }

    #[test]
    fn other_schemes_are_named() {
        let stores = LazyStores::new(vec![]).with_allow_http(true);
        let error = store(&stores, "ftp://example.org/a.parquet");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("ftp://"), "{error}");
    }
}
