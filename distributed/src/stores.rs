//! [`LazyStores`]: object stores, made when a URL first names one, by the credentials of the environment or of options.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::not_impl_err;
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
/// A URL of another scheme is an error of the query that names it, as are credentials that are missing.
#[derive(Debug)]
pub struct LazyStores {
    made: RwLock<HashMap<String, Arc<dyn ObjectStore>>>,
    options: Vec<(String, String)>,
}

impl LazyStores {
    /// Stores with `options` by the builders' names, such as `aws_region`: they precede those of the environment, such as `AWS_REGION`.
    pub fn new(options: Vec<(String, String)>) -> Self {
        let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        Self {
            made: RwLock::new(HashMap::from([("file://".to_string(), local)])),
            options,
        }
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
                let client = ClientOptions::new().with_allow_http(true);
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
