//! `bowtie_similar`: a table function that joins each row with the rows of another table whose lists, as sets, are the most similar to its own.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::{DFSchema, JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, SortExpr, lit,
};

use crate::functions::set_function::{element_type, set_call};
use crate::ir::set_predicate::SetValue;
use crate::plan::partners::function::{PartnersFunction, output};
use crate::plan::partners::numbered::FirstPartners;

/// The places of arguments behind those that all functions have.
const K: usize = 3;
const MEASURE: usize = 4;
const AT_LEAST: usize = 5;
const BY: usize = 6;
const EXCEPT: usize = 7;

impl PartnersFunction {
    /// The view of a call of `bowtie_similar`.
    pub(super) fn similar(
        self,
        arguments: &[Expr],
        [left, right]: [LogicalPlan; 2],
        names: &AliasGenerator,
    ) -> Result<Arc<dyn TableProvider>> {
        let schemas = [left.schema().as_ref(), right.schema().as_ref()];
        let on = self.columns(&self.needed(arguments, 2, "on")?, schemas)?;
        let [[left_list, right_list]] = on.as_slice() else {
            return Err(self.error("on is one column of lists, or left column = right column"));
        };
        self.check_list(left_list, schemas[0])?;
        self.check_list(right_list, schemas[1])?;
        let named = |at: usize, name: &str| match self.text(arguments, at, name)? {
            Some(text) => self.columns(&text, schemas),
            None => Ok(vec![]),
        };
        let (by, except) = (named(BY, "by")?, named(EXCEPT, "except")?);
        let k = self.count(arguments, K)?;
        let value = self.measure(arguments)?;
        let lists = || [left_list.clone(), right_list.clone()];

        let least = arguments
            .get(AT_LEAST)
            .filter(|least| !matches!(least, Expr::Literal(value, _) if value.is_null()));
        let is_similar = match least {
            Some(Expr::Literal(least, _)) => {
                let least = self.least(value, least)?;
                set_call(value, lists()).gt_eq(lit(least))
            }
            Some(other) => {
                return Err(self.error(format!("at_least is a constant number, not {other}")));
            }
            None => set_call(SetValue::Overlap, lists()).gt_eq(lit(1_i64)),
        };
        let mut condition = vec![is_similar];
        let keys = by.iter().cloned();
        condition.extend(keys.map(|[left, right]| left.eq(right)));
        // A NULL differs from everything, and from another NULL.
        let same = except.into_iter().map(|[left, right]| left.eq(right));
        condition.extend(conjunction(same).map(|same| same.is_not_true()));
        let wanted = FirstPartners {
            condition: conjunction(condition).unwrap_or_else(|| lit(true)),
            order: vec![SortExpr::new(set_call(value, lists()), false, false)],
            kind: JoinType::Left,
            skip: 0,
            last: lit(k),
        };
        let (of_left, of_right) = (left.schema().clone(), right.schema().clone());
        let place = match right_list {
            Expr::Column(column) => of_right.maybe_index_of_column(column),
            _ => None,
        };
        let (plan, partners) = wanted.of(left, right, names)?;
        let partner_list = place.and_then(|place| partners.get(place)).cloned();
        let similarity = partner_list.map(|list| {
            let similarity = set_call(value, [left_list.clone(), list]);
            ("similarity", similarity)
        });
        let columns = output(&of_left, &of_right, partners, &by, similarity);
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }

    fn check_list(self, list: &Expr, schema: &DFSchema) -> Result<()> {
        let data_type = list.get_type(schema)?;
        match element_type(&data_type) {
            Some(_) => Ok(()),
            None => {
                // The table has an internal name.
                let name = match list {
                    Expr::Column(column) => column.name().to_string(),
                    other => other.to_string(),
                };
                Err(self.error(format!(
                    "{name} is {data_type}, no list: make sets of text by tokens() or shingles() in a query"
                )))
            }
        }
    }

    fn measure(self, arguments: &[Expr]) -> Result<SetValue> {
        let name = self.text(arguments, MEASURE, "measure")?;
        let name = name.map(|name| name.to_ascii_lowercase());
        let name = name.as_deref().unwrap_or("jaccard");
        let known = SetValue::ALL
            .into_iter()
            .find(|value| value.short_name() == name);
        known.ok_or_else(|| {
            let all = SetValue::ALL.map(|value| format!("'{}'", value.short_name()));
            self.error(format!(
                "measure is one of {}, not '{name}'",
                all.join(", ")
            ))
        })
    }

    /// The least value of partners: a whole number of common elements, or a degree above 0.
    fn least(self, value: SetValue, least: &ScalarValue) -> Result<ScalarValue> {
        let wanted = match value {
            SetValue::Overlap => DataType::Int64,
            SetValue::Degree(_) => DataType::Float64,
        };
        let is_number = least.data_type().is_numeric();
        match (value, least.cast_to(&wanted)) {
            (SetValue::Overlap, Ok(ScalarValue::Int64(Some(count))))
                if least.data_type().is_integer() && count > 0 =>
            {
                Ok(ScalarValue::Int64(Some(count)))
            }
            (SetValue::Degree(_), Ok(ScalarValue::Float64(Some(degree))))
                if is_number && degree > 0.0 && degree <= 1.0 =>
            {
                Ok(ScalarValue::Float64(Some(degree)))
            }
            (SetValue::Overlap, _) => Err(self.error(format!(
                "at_least is a number of common elements from 1 on, not {}",
                Self::shown(least)
            ))),
            (SetValue::Degree(_), _) => Err(self.error(format!(
                "at_least is a similarity above 0, and 1 at most, not {}",
                Self::shown(least)
            ))),
        }
    }
}
