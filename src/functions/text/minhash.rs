//! [`MinHash`]: `minhash(array, k)`, a signature of k values of a list as a set.
//!
//! Two signatures have a value in common at a position with the probability of the Jaccard similarity of their sets.
//! `element_hashes.rs` says what an element is hashed to, `signatures.rs` what becomes of the hashes.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, ListArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::utils::take_function_args;
use datafusion::common::{exec_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::functions::set_function::element_type;
use crate::functions::text::arguments::{Arguments, constant_integer, integer_type, not_coerced};
use crate::functions::text::element_hashes::element_hashes;
use crate::functions::text::signatures::HashFunctions;
use crate::list_sets::elements::{Lists, are_elements};

const NAME: &str = "minhash";

/// Values of a signature, at most.
const LONGEST: i64 = 65_536;

/// Values of the signatures of one batch, at most: 1 GiB of them.
const MOST_VALUES: usize = 1 << 27;

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    Documentation::builder(
        DocSection {
            include: true,
            label: "Array Functions",
            description: None,
        },
        "Returns a MinHash signature of an array as a set: k values, so that array_overlap(minhash(a, k), minhash(b, k)) / k, divided as floats, estimates the Jaccard similarity of a and b, with a standard error of at most 1 / (2 * sqrt(k)). Order and duplicates do not matter, NULL is an element like any other, an empty array has an empty signature, and the result is NULL if an argument is. A shorter signature is the beginning of a longer one, and signatures are the same on every machine and in every version.",
        "minhash(array, k)",
    )
    .with_sql_example(
        "```sql\n> select array_overlap(minhash(range(0, 300), 256), minhash(range(100, 400), 256)) / 256.0;\n0.5546875\n```",
    )
    .with_argument("array", "Array expression.")
    .with_argument("k", "Values of the signature, from 1 to 65536.")
    .build()
});

fn signature_list() -> DataType {
    DataType::new_list(DataType::UInt64, true)
}

/// The length of a signature.
fn length_of(k: i64) -> Result<usize, String> {
    match (1..=LONGEST).contains(&k) {
        true => Ok(k as usize),
        false => Err(format!(
            "{NAME} takes a k from 1 to {LONGEST}, not {k}: k is how many values a signature has"
        )),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MinHash {
    signature: Signature,
}

impl MinHash {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

/// The type in which lists are taken, all of which are.
fn list_type(given: &DataType) -> Result<DataType> {
    if given.is_null() {
        return Ok(DataType::new_list(DataType::Null, true));
    }
    match element_type(given) {
        Some(elements) if is_hashed(elements) => Ok(given.clone()),
        Some(elements) => plan_err!(
            "{NAME} takes an array with elements of a plain type, not {elements}: cast them to one, such as VARCHAR"
        ),
        None => plan_err!("{NAME} takes an array, not {given}: make one by make_array"),
    }
}

fn is_hashed(elements: &DataType) -> bool {
    are_elements(elements) && !matches!(elements, DataType::RunEndEncoded(..))
}

/// Where each row's signature begins, and where the last one ends; and the length of the longest.
fn layout(arguments: &Arguments, lists: &Lists) -> Result<(Vec<i32>, usize)> {
    let lengths = arguments.integers(NAME, 1)?;
    let mut offsets = Vec::with_capacity(arguments.rows + 1);
    offsets.push(0);
    let (mut total, mut longest) = (0_usize, 0_usize);
    for row in 0..arguments.rows {
        if !arguments.is_null(row) {
            let k = lengths.value(arguments.at(1, row));
            let k = length_of(k).map_err(DataFusionError::Execution)?;
            let elements = lists.get(arguments.at(0, row));
            if elements.is_some_and(|elements| !elements.is_empty()) {
                total += k;
                longest = longest.max(k);
            }
        }
        if total > MOST_VALUES {
            return Err(exec_datafusion_err!(
                "{NAME} makes more than {MOST_VALUES} values of one batch: lower k or datafusion.execution.batch_size"
            ));
        }
        offsets.push(total as i32);
    }
    Ok((offsets, longest))
}

fn signatures_of(arguments: &Arguments) -> Result<ArrayRef> {
    let lists = Lists::of(&arguments.arrays[0])?;
    let (offsets, longest) = layout(arguments, &lists)?;
    let hashes = element_hashes(lists.values.as_ref())
        .ok_or_else(|| not_coerced(NAME, arguments.arrays[0].data_type()))?;
    let functions = HashFunctions::new(longest);
    let mut values = vec![0_u64; offsets[arguments.rows] as usize];
    for row in 0..arguments.rows {
        let signature = &mut values[offsets[row] as usize..offsets[row + 1] as usize];
        let elements = lists.get(arguments.at(0, row));
        if let (Some(elements), false) = (elements, signature.is_empty()) {
            functions.sign(&hashes[elements], signature);
        }
    }
    let field = Arc::new(Field::new_list_field(DataType::UInt64, true));
    Ok(Arc::new(ListArray::try_new(
        field,
        OffsetBuffer::<i32>::new(offsets.into()),
        Arc::new(UInt64Array::from(values)),
        arguments.nulls.clone(),
    )?))
}

impl ScalarUDFImpl for MinHash {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [list, k] = take_function_args(NAME, arguments)?;
        Ok(vec![list_type(list)?, integer_type(NAME, k)?])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(signature_list())
    }

    /// A constant that is wrong is an error of planning, whatever rows there are.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(k) = constant_integer(&args, 1) {
            length_of(k).map_err(DataFusionError::Plan)?;
        }
        Ok(Arc::new(Field::new(NAME, signature_list(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = Arguments::of(&args)?;
        arguments.result(signatures_of(&arguments)?)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}
