//! ORDER BY and LIMIT: their specs, or the reason why there is none.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::error::Decline;
use crate::plan::compile::key_types::is_orderable;
use crate::plan::compile::row_program;
use crate::plan::recognise::candidate::SortCandidate;
use crate::spec::rows::RowExpressions;
use crate::spec::sort::{LimitSpec, SortColumn, SortSpec};

/// A sort of DataFusion; `None` for other nodes. Whether it keeps partitions apart does not matter, as a device node has one.
pub(crate) fn sort_candidate(plan: &Arc<dyn ExecutionPlan>) -> Option<SortCandidate> {
    let sort = plan.downcast_ref::<SortExec>()?;
    let (spec, computed) = match keys(sort) {
        Ok((keys, computed)) => {
            let spec = SortSpec {
                keys,
                fetch: sort.fetch(),
                schema: plan.schema(),
                ordering: sort.expr().clone(),
            };
            (Ok(spec), computed)
        }
        Err(decline) => (Err(decline), None),
    };
    Some(SortCandidate { computed, spec })
}

/// The key columns, and the expressions of those that are behind the input's.
fn keys(sort: &SortExec) -> Result<(Vec<SortColumn>, Option<RowExpressions>), Decline> {
    let schema = sort.input().schema();
    let mut computed: Vec<Arc<dyn PhysicalExpr>> = vec![];
    let mut keys = vec![];
    for key in sort.expr().iter() {
        let shown = || fmt_sql(key.expr.as_ref()).to_string();
        let data_type = key.expr.data_type(&schema);
        let data_type = data_type.map_err(|error| Decline(error.to_string()))?;
        if !is_orderable(&data_type) {
            return Decline::because(format!(
                "its key {} has the type {data_type}, which bowtie does not sort by",
                shown()
            ));
        }
        let column = match key.expr.downcast_ref::<Column>() {
            Some(column) => column.index(),
            None => {
                computed.push(Arc::clone(&key.expr));
                schema.fields().len() + computed.len() - 1
            }
        };
        keys.push(SortColumn {
            column,
            options: key.options,
        });
    }
    let compiled = match computed.is_empty() {
        true => None,
        false => Some(row_program::compile(&computed, &schema).map_err(|error| {
            let key = computed.get(error.expression);
            let key = key.map(|key| fmt_sql(key.as_ref()).to_string());
            let key = key.unwrap_or_default();
            Decline(format!("its key {key} is not supported on the device"))
        })?),
    };
    Ok((keys, compiled))
}

/// A limit of DataFusion; `None` for other nodes.
pub(crate) fn limit_spec(plan: &Arc<dyn ExecutionPlan>) -> Option<LimitSpec> {
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return Some(LimitSpec {
            skip: limit.skip(),
            fetch: limit.fetch(),
        });
    }
    let limit = plan.downcast_ref::<LocalLimitExec>()?;
    Some(LimitSpec {
        skip: 0,
        fetch: Some(limit.fetch()),
    })
}
