//! [`Tokens`]: `tokens(text)`, the words of a text.

use std::sync::LazyLock;

use arrow::array::{Array, ArrayRef, AsArray, StringArrayType};
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};
use unicode_segmentation::UnicodeSegmentation;

use crate::functions::text::arguments::{Arguments, not_coerced, text_type};
use crate::functions::text::text_lists::{TextLists, text_list};

const NAME: &str = "tokens";

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    Documentation::builder(
        DocSection {
            include: true,
            label: "String Functions",
            description: None,
        },
        "Returns the words of a text as an array: what lies between the word boundaries of Unicode (UAX #29) and has a letter or a digit. They are in the order of the text, with repeats, and in its case.",
        "tokens(text)",
    )
    .with_sql_example(
        "```sql\n> select tokens('It can''t be, or can it?');\n[It, can't, be, or, can, it]\n```",
    )
    .with_argument("text", "Text expression.")
    .build()
});

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tokens {
    signature: Signature,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

fn tokens_of<'a>(texts: impl StringArrayType<'a>, arguments: &Arguments) -> Result<ArrayRef> {
    let mut lists = TextLists::new(NAME, arguments.rows);
    for row in 0..arguments.rows {
        if !arguments.is_null(row) {
            for word in texts.value(arguments.at(0, row)).unicode_words() {
                lists.push(word)?;
            }
        }
        lists.end_list();
    }
    lists.finish(arguments.nulls.clone())
}

impl ScalarUDFImpl for Tokens {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [text] = take_function_args(NAME, arguments)?;
        Ok(vec![text_type(NAME, text)?])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(text_list())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = Arguments::of(&args)?;
        let [texts] = take_function_args(NAME, &arguments.arrays)?;
        let made = match texts.data_type() {
            DataType::Utf8 => tokens_of(texts.as_string::<i32>(), &arguments),
            DataType::LargeUtf8 => tokens_of(texts.as_string::<i64>(), &arguments),
            DataType::Utf8View => tokens_of(texts.as_string_view(), &arguments),
            other => Err(not_coerced(NAME, other)),
        };
        arguments.result(made?)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}
