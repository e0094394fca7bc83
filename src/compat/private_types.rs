//! Private types of DataFusion, known by how they are shown or by their identity.

use std::any::Any;
use std::fmt::{self, Debug, Write};
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;

/// Whether `factory` is one of DataFusion's factories of readers of Parquet files, which read the bytes that the store has.
pub(crate) fn is_own_reader_factory(factory: &dyn Debug) -> bool {
    let own = [
        "CachedParquetFileReaderFactory",
        "DefaultParquetFileReaderFactory",
    ];
    is_shown_as(factory, &own)
}

/// Whether `factory` is DataFusion's own factory of adapters, which casts columns of files to those of the table and fills missing ones.
pub(crate) fn is_own_adapter_factory(factory: &dyn Debug) -> bool {
    is_shown_as(factory, &["DefaultPhysicalExprAdapterFactory"])
}

/// Whether `planner` is the one of a session that was given none.
pub(crate) fn is_default_planner(planner: &Arc<dyn QueryPlanner + Send + Sync>) -> bool {
    let planner: &dyn Any = planner.as_ref();
    let default = SessionStateBuilder::new().build();
    let default: &dyn Any = default.query_planner().as_ref();
    planner.type_id() == default.type_id()
}

/// Whether a value is of one of these types, as it is shown. Only the beginning is written.
fn is_shown_as(value: &dyn Debug, names: &[&str]) -> bool {
    struct Beginning(String);
    impl Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() > 64 {
                Err(fmt::Error)
            } else {
                Ok(())
            }
        }
    }
    let mut beginning = Beginning(String::new());
    // The error ends the writing.
    let _ = write!(beginning, "{value:?}");
    let end = beginning.0.find(|c: char| !c.is_alphanumeric());
    let name = &beginning.0[..end.unwrap_or(beginning.0.len())];
    names.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_private_types() {
        #[derive(Debug)]
        struct Known {
            #[expect(dead_code, reason = "shown")]
            text: String,
        }
        let known = Known {
            text: "x".repeat(1000),
        };
        assert!(is_shown_as(&known, &["Other", "Known"]));
        assert!(!is_shown_as(&known, &["Kno", "Knowns"]));
    }

    #[test]
    fn the_default_planner_is_known() {
        let state = SessionStateBuilder::new().with_default_features().build();
        assert!(
            is_default_planner(state.query_planner()),
            "a session's planner is another one than that of an empty session: with_bowtie would call it, and snapshots of tables in memory \
             would not be shared (session.rs)"
        );
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn factories_of_datafusion_are_known() {
        use datafusion::datasource::object_store::ObjectStoreUrl;
        use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
        use datafusion::execution::object_store::{
            DefaultObjectStoreRegistry, ObjectStoreRegistry,
        };

        let url = ObjectStoreUrl::local_filesystem();
        let store = DefaultObjectStoreRegistry::new().get_store(url.as_ref());
        let readers = DefaultParquetFileReaderFactory::new(store.unwrap());
        assert!(
            is_own_reader_factory(&readers),
            "DataFusion shows its factory of Parquet readers in another way, so that no column of a file stays on a device: {readers:?}"
        );
        assert!(!is_own_adapter_factory(&readers));
        let adapters = datafusion::physical_expr_adapter::DefaultPhysicalExprAdapterFactory;
        assert!(
            is_own_adapter_factory(&adapters),
            "DataFusion shows its factory of adapters in another way, so that no column of a file stays on a device: {adapters:?}"
        );
    }
}
