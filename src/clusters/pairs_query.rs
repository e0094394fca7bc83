//! [`PairsQuery`]: the query of pairs that a text is, planned logically: two columns of one type.

use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};

use crate::exec::clusters::ids::Ids;
use crate::plan::query_text::{query_plan, unplanned};

/// The table function.
const FUNCTION: &str = "bowtie_clusters";

/// A query of pairs.
#[derive(Debug)]
pub(super) struct PairsQuery {
    pub(super) plan: LogicalPlan,
    /// The type of both columns.
    pub(super) data_type: DataType,
}

impl PairsQuery {
    /// Plans a text: a query of two columns, or the name of a table that has them.
    ///
    /// # Errors
    /// If it is neither, and for ids that cannot be compared.
    pub(super) fn of(state: &SessionState, text: &str) -> Result<Self> {
        let plan = query_plan(FUNCTION, state, text)?;
        let columns = plan.schema().columns();
        let [left, right] = columns.as_slice() else {
            let names: Vec<String> = columns.iter().map(ToString::to_string).collect();
            return Err(DataFusionError::Plan(format!(
                "bowtie_clusters needs a query of two columns, the ids of each pair, and this one has {}: {}",
                names.len(),
                names.join(", ")
            )));
        };
        // Types are settled when operands are coerced.
        let analyzed = state
            .analyzer()
            .execute_and_check(plan.clone(), state.config_options(), |_, _| {})
            .map_err(|error| unplanned(FUNCTION, error))?;
        let types = [0, 1].map(|column| analyzed.schema().field(column).data_type());
        let data_type = common_type(types)?;
        let [left_type, right_type] = types;
        let sides = [(left, left_type, "left"), (right, right_type, "right")];
        let sides = sides.map(|(column, of_column, name)| {
            let column = Expr::Column(column.clone());
            let side = match *of_column == data_type {
                true => column,
                false => cast(column, data_type.clone()),
            };
            side.alias(name)
        });
        let plan = LogicalPlanBuilder::from(plan)
            .project(sides)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|error| unplanned(FUNCTION, error))?;
        Ok(Self { plan, data_type })
    }
}

/// The type in which the ids of both columns are compared.
fn common_type([left, right]: [&DataType; 2]) -> Result<DataType> {
    let common = comparison_coercion(left, right).ok_or_else(|| {
        DataFusionError::Plan(format!(
            "bowtie_clusters cannot compare the two columns of its query, {left} and {right}: CAST one of them to the type of the other"
        ))
    })?;
    let data_type = values_of(&common).clone();
    if !Ids::supports(&data_type) {
        return Err(DataFusionError::Plan(format!(
            "bowtie_clusters cannot order ids of type {data_type}: CAST both columns of its query to text or integers"
        )));
    }
    Ok(data_type)
}

/// The type of an encoded type's values: each id comes out once, so its codes would gain nothing, and small ones may not be enough.
fn values_of(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values_of(values),
        DataType::RunEndEncoded(_, values) => values_of(values.data_type()),
        other => other,
    }
}
