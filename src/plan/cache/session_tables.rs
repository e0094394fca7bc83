//! [`SessionTables`]: the tables of a session whose columns may be stored, by what these were made of.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::execution::SessionState;
use datafusion::object_store::path::Path;

use crate::store::array_key::ArrayAddress;
use crate::store::column_key::Origin;
use crate::store::file_key::FilePlace;

/// The tables in memory and of files of all catalogs of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionTables {
    arrays: HashMap<ArrayAddress, String>,
    /// By their names.
    listings: Vec<(String, Vec<ListingTableUrl>)>,
}

impl SessionTables {
    pub(crate) async fn of(state: &SessionState) -> Self {
        let mut tables = Self::default();
        let catalogs = state.catalog_list();
        let defaults = &state.config_options().catalog;
        for catalog_name in catalogs.catalog_names() {
            let Some(catalog) = catalogs.catalog(&catalog_name) else {
                continue;
            };
            for schema_name in catalog.schema_names() {
                let Some(schema) = catalog.schema(&schema_name) else {
                    continue;
                };
                let is_default = (&catalog_name, &schema_name)
                    == (&defaults.default_catalog, &defaults.default_schema);
                for name in schema.table_names() {
                    // A table that its catalog cannot open has no rows here.
                    let Ok(Some(provider)) = schema.table(&name).await else {
                        continue;
                    };
                    let shown = match is_default {
                        true => name,
                        false => format!("{catalog_name}.{schema_name}.{name}"),
                    };
                    tables.add(shown, provider.as_ref()).await;
                }
            }
        }
        tables.listings.sort_by(|a, b| a.0.cmp(&b.0));
        tables
    }

    async fn add(&mut self, shown: String, provider: &dyn TableProvider) {
        if let Some(listing) = provider.downcast_ref::<ListingTable>() {
            self.listings.push((shown, listing.table_paths().clone()));
            return;
        }
        let Some(table) = provider.downcast_ref::<MemTable>() else {
            return;
        };
        for partition in &table.batches {
            for array in partition.read().await.iter().flat_map(RecordBatch::columns) {
                self.arrays.insert(ArrayAddress::of(array), shown.clone());
            }
        }
    }

    /// The name of the table that has a column; or its file, where no table is known to have that.
    pub(crate) fn name_of(&self, origin: &Origin) -> Option<String> {
        match origin {
            Origin::Array(array) => self.arrays.get(array).cloned(),
            Origin::File(file) => {
                let mut listings = self.listings.iter();
                let table = listings.find(|(_, paths)| are_of(paths, file));
                Some(match table {
                    Some((name, _)) => name.clone(),
                    None => format!("{}/{}", file.url, file.path),
                })
            }
        }
    }
}

/// Whether a file is under one of the paths of a table.
pub(crate) fn are_of(paths: &[ListingTableUrl], file: &FilePlace) -> bool {
    let path = Path::from(file.path.as_ref());
    paths.iter().any(|of| {
        let url = of.object_store();
        url.as_str().trim_end_matches('/') == &*file.url && of.contains(&path, false)
    })
}
