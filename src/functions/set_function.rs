//! [`SetFunction`]: `array_overlap`, `array_jaccard`, `array_dice`, `array_cosine` and `array_containment`.
//!
//! Lists are sets of their distinct elements; `list_sets/elements.rs` defines the equality of elements. The result is
//! NULL if a list is NULL.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Float64Array, Int64Array, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::utils::{ListCoercion, take_function_args};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::functions::overlap::{Argument, Sizes, sizes_by_row};
use crate::ir::set_predicate::{SetMeasure, SetValue};
use crate::list_sets::elements::are_elements;

impl SetValue {
    pub(crate) const ALL: [Self; 5] = [
        Self::Overlap,
        Self::Degree(SetMeasure::Jaccard),
        Self::Degree(SetMeasure::Dice),
        Self::Degree(SetMeasure::Cosine),
        Self::Degree(SetMeasure::Containment),
    ];

    /// The type of the result.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Overlap => DataType::Int64,
            Self::Degree(_) => DataType::Float64,
        }
    }

    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::Degree(SetMeasure::Jaccard) => "jaccard",
            Self::Degree(SetMeasure::Dice) => "dice",
            Self::Degree(SetMeasure::Cosine) => "cosine",
            Self::Degree(SetMeasure::Containment) => "containment",
        }
    }

    fn documentation(self) -> &'static Documentation {
        static OF: LazyLock<Vec<Documentation>> =
            LazyLock::new(|| SetValue::ALL.into_iter().map(documentation).collect());
        match self {
            Self::Overlap => &OF[0],
            Self::Degree(SetMeasure::Jaccard) => &OF[1],
            Self::Degree(SetMeasure::Dice) => &OF[2],
            Self::Degree(SetMeasure::Cosine) => &OF[3],
            Self::Degree(SetMeasure::Containment) => &OF[4],
        }
    }
}

fn documentation(of: SetValue) -> Documentation {
    let (description, result) = match of {
        SetValue::Overlap => (
            "Returns how many distinct elements two arrays have in common.",
            "2",
        ),
        SetValue::Degree(SetMeasure::Jaccard) => (
            "Returns the Jaccard similarity of two arrays as sets: the number of elements that they share by the number of elements of either. Two empty arrays have 1.",
            "0.4",
        ),
        SetValue::Degree(SetMeasure::Dice) => (
            "Returns the Dice similarity of two arrays as sets: twice the number of elements that they share by the sum of their sizes. Two empty arrays have 1.",
            "0.5714285714285714",
        ),
        SetValue::Degree(SetMeasure::Cosine) => (
            "Returns the cosine similarity of two arrays as sets: the number of elements that they share by the root of the product of their sizes. Two empty arrays have 1.",
            "0.5773502691896258",
        ),
        SetValue::Degree(SetMeasure::Containment) => (
            "Returns the degree to which the smaller of two arrays is contained in the other one, as sets: the number of elements that they share by the size of the smaller. An empty array is contained in every array.",
            "0.6666666666666666",
        ),
    };
    let name = of.short_name();
    Documentation::builder(
        DocSection {
            include: true,
            label: "Array Functions",
            description: None,
        },
        format!(
            "{description} Duplicates count once, NULL is an element like any other, and the result is NULL if one of the arrays is."
        ),
        format!("array_{name}(array1, array2)"),
    )
    .with_sql_example(format!(
        "```sql\n> select array_{name}([1, 2, 3, 3], [2, 3, 4, 5]);\n{result}\n```"
    ))
    .with_argument("array1", "Array expression.")
    .with_argument("array2", "Array expression with elements of the same type.")
    .build()
}

/// A function of two lists.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SetFunction {
    value: SetValue,
    name: String,
    aliases: Vec<String>,
    signature: Signature,
}

impl SetFunction {
    pub(crate) fn new(value: SetValue) -> Self {
        Self {
            value,
            name: format!("array_{}", value.short_name()),
            aliases: vec![format!("list_{}", value.short_name())],
            signature: Signature::arrays(
                2,
                Some(ListCoercion::FixedSizedListToList),
                Volatility::Immutable,
            ),
        }
    }

    pub(crate) fn value(&self) -> SetValue {
        self.value
    }

    fn result_type(&self) -> DataType {
        self.value.data_type()
    }

    /// Whether the arguments are lists of elements that can be compared, one of which may be NULL.
    fn check(&self, arguments: &[DataType]) -> Result<()> {
        let [first, second] = take_function_args(self.name(), arguments)?;
        if first.is_null() || second.is_null() {
            return Ok(());
        }
        let (Some(of_first), Some(of_second)) = (element_type(first), element_type(second)) else {
            return plan_err!("{} takes two arrays, not {first} and {second}", self.name);
        };
        match of_first == of_second && are_elements(of_first) {
            true => Ok(()),
            false => plan_err!(
                "{} takes arrays with elements of one plain type, not {of_first} and {of_second}",
                self.name
            ),
        }
    }

    fn evaluate(
        &self,
        rows: usize,
        first: &Argument<'_>,
        second: &Argument<'_>,
    ) -> Result<ArrayRef> {
        let mut overlaps = vec![];
        let mut degrees = vec![];
        match self.value {
            SetValue::Overlap => {
                let overlap = |sizes: Option<Sizes>| sizes.map(|s| s.shared as i64);
                sizes_by_row(rows, first, second, |sizes| overlaps.push(overlap(sizes)))?;
                Ok(Arc::new(Int64Array::from(overlaps)))
            }
            SetValue::Degree(measure) => {
                let degree = |sizes: Option<Sizes>| {
                    sizes.map(|s| measure.degree(s.shared, s.first, s.second))
                };
                sizes_by_row(rows, first, second, |sizes| degrees.push(degree(sizes)))?;
                Ok(Arc::new(Float64Array::from(degrees)))
            }
        }
    }
}

impl ScalarUDFImpl for SetFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.check(arguments)?;
        Ok(self.result_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [first, second] = take_function_args(self.name(), &args.args)?;
        let is_one = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let one = is_one(first) && is_one(second);
        let rows = if one { 1 } else { args.number_rows };
        let types = [first.data_type(), second.data_type()];
        self.check(&types)?;
        let made = if types.iter().any(DataType::is_null) {
            new_null_array(&self.result_type(), rows)
        } else {
            let array = |value: &ColumnarValue| match value {
                ColumnarValue::Array(array) => Ok(Arc::clone(array)),
                ColumnarValue::Scalar(scalar) => scalar.to_array(),
            };
            let arrays = [array(first)?, array(second)?];
            let argument = |i: usize, value| Argument {
                array: &arrays[i],
                one_for_all: is_one(value),
            };
            self.evaluate(rows, &argument(0, first), &argument(1, second))?
        };
        match one {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &made, 0,
            )?)),
            false => Ok(ColumnarValue::Array(made)),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.value.documentation())
    }
}

/// A call of the function of a value.
pub(crate) fn set_call(value: SetValue, lists: [Expr; 2]) -> Expr {
    let function = Arc::new(ScalarUDF::from(SetFunction::new(value)));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, lists.into()))
}

/// The type of a list's elements.
pub(crate) fn element_type(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => Some(field.data_type()),
        _ => None,
    }
}
