//! TPC-H at scale factor 10, planned as for a GPU without a row of data: what was measured to gain when forced is offloaded.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatchReader;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, Statistics, project_schema};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, PlanProperties,
    StatisticsArgs,
};
use datafusion::prelude::SessionContext;
use tpchgen::generators::*;
use tpchgen_arrow::*;

use crate::plan::choose::policy::tests::{H200, offloaded, session};

/// A table with statistics and without data.
#[derive(Debug)]
struct Counted {
    schema: SchemaRef,
    rows: usize,
    /// The values that each column has are below it.
    below: Option<i64>,
}

#[async_trait]
impl TableProvider for Counted {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = project_schema(&self.schema, projection)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(16),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(CountedExec {
            rows: self.rows,
            below: self.below,
            properties: Arc::new(properties),
        }))
    }
}

#[derive(Debug)]
struct CountedExec {
    rows: usize,
    below: Option<i64>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for CountedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CountedExec: {}", self.rows)
    }
}

impl ExecutionPlan for CountedExec {
    fn name(&self) -> &'static str {
        "CountedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(EmptyRecordBatchStream::new(self.schema())))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = Precision::Exact(self.rows);
        if let Some(below) = self.below {
            for column in &mut statistics.column_statistics {
                column.min_value = Precision::Exact(ScalarValue::Int64(Some(0)));
                column.max_value = Precision::Exact(ScalarValue::Int64(Some(below - 1)));
            }
        }
        Ok(Arc::new(statistics))
    }
}

pub(crate) fn tables() -> SessionContext {
    let context = session(H200);
    let scale = 0.01;
    let register = |name: &str, schema: SchemaRef, rows: usize| {
        let table = Counted {
            schema,
            rows,
            below: None,
        };
        context.register_table(name, Arc::new(table)).unwrap();
    };
    macro_rules! tables {
        ($($name:literal $arrow:ident $generator:ident $rows:literal)*) => {
            $(register($name, $arrow::new($generator::new(scale, 1, 1)).schema(), $rows);)*
        };
    }
    tables! {
        "part" PartArrow PartGenerator 2_000_000
        "supplier" SupplierArrow SupplierGenerator 100_000
        "partsupp" PartSuppArrow PartSuppGenerator 8_000_000
        "customer" CustomerArrow CustomerGenerator 1_500_000
        "orders" OrderArrow OrderGenerator 15_000_000
        "lineitem" LineItemArrow LineItemGenerator 59_986_052
    }
    register(
        "nation",
        NationArrow::new(NationGenerator::new(scale, 1, 1)).schema(),
        25,
    );
    register(
        "region",
        RegionArrow::new(RegionGenerator::new(scale, 1, 1)).schema(),
        5,
    );
    context
}

/// DataFusion expects a row of each of its joins, whose keys nobody counted.
#[tokio::test]
async fn many_groups_stay_on_the_device() {
    let offloaded = offloaded(
        &tables(),
        include_str!("../../../../tests/it/tpch/subqueries/q02.sql"),
    )
    .await;
    let is = |name: &str| offloaded.iter().any(|other| other == name);
    assert!(
        is("AggregateExec") && !is("JoinAggregateExec"),
        "{offloaded:?}"
    );
}

/// Groups that each partition would make again: the aggregation below the joins is the device's, as are the joins and what sums their
/// rows.
#[tokio::test]
async fn groups_of_all_partitions_are_the_devices() {
    let offloaded = offloaded(
        &tables(),
        include_str!("../../../../tests/it/tpch/subqueries/q17.sql"),
    )
    .await;
    let times = |name: &str| offloaded.iter().filter(|other| *other == name).count();
    assert_eq!(
        (times("AggregateExec"), times("JoinExec")),
        (2, 2),
        "{offloaded:?}"
    );
}

/// Keys that nobody counted, but whose ends say that there are few: what has far more pairs than rows makes none.
#[tokio::test]
async fn many_pairs_are_not_made() {
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    for (below, fused) in [(Some(100), true), (Some(1 << 40), false), (None, false)] {
        let context = session(H200);
        for name in ["many", "others"] {
            let table = Counted {
                schema: Arc::clone(&schema),
                rows: 1_000_000,
                below,
            };
            context.register_table(name, Arc::new(table)).unwrap();
        }
        context.sql("SET bowtie.offload = 'force'").await.unwrap();
        let sql = "SELECT many.k, COUNT(*), SUM(many.v) FROM many JOIN others ON many.k = others.k GROUP BY many.k";
        let offloaded = offloaded(&context, sql).await;
        let is = |name: &str| offloaded.iter().any(|other| other == name);
        assert_eq!(is("JoinAggregateExec"), fused, "{below:?}: {offloaded:?}");
        assert_eq!(is("AggregateExec"), !fused, "{below:?}: {offloaded:?}");
    }
}

#[tokio::test]
async fn what_was_measured_to_gain_is_offloaded() {
    let context = tables();
    // How many joins are offloaded, at least; no node of those without.
    for (joins, sql) in [
        (0, include_str!("../../../../tests/it/tpch/plain/q01.sql")),
        (
            1,
            include_str!("../../../../tests/it/tpch/subqueries/q04.sql"),
        ),
        (5, include_str!("../../../../tests/it/tpch/plain/q05.sql")),
        (0, include_str!("../../../../tests/it/tpch/plain/q06.sql")),
        (4, include_str!("../../../../tests/it/tpch/plain/q07.sql")),
        (5, include_str!("../../../../tests/it/tpch/plain/q08.sql")),
        (4, include_str!("../../../../tests/it/tpch/plain/q09.sql")),
        (
            4,
            include_str!("../../../../tests/it/tpch/subqueries/q11.sql"),
        ),
    ] {
        let sql = sql.split(';').next().unwrap();
        let offloaded = offloaded(&context, sql).await;
        let found = offloaded
            .iter()
            .filter(|name| name.starts_with("Join"))
            .count();
        match joins {
            0 => assert_eq!(offloaded, [""; 0], "{sql}"),
            joins => assert!(found >= joins, "{sql}\n{offloaded:?}"),
        }
    }
}
