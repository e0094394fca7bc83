//! [`Shingles`]: `shingles(text, n [, 'char' | 'word'])`, the windows of n consecutive characters or words of a text.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, StringArrayType};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::functions::text::arguments::{
    Arguments, constant_integer, constant_text, integer_type, not_coerced, text_type,
};
use crate::functions::text::text_lists::{TextLists, text_list};
use crate::functions::text::windows::{Words, push_characters};

const NAME: &str = "shingles";

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    Documentation::builder(
        DocSection {
            include: true,
            label: "String Functions",
            description: None,
        },
        "Returns all windows of n consecutive characters, or words, of a text as an array, in the order of the text and with repeats. A text with fewer than n is one shingle, an empty one has none. Words are those of `tokens`, joined by one space.",
        "shingles(text, n[, unit])",
    )
    .with_sql_example(
        "```sql\n> select shingles('joins', 3), shingles('To be, or not', 2, 'word');\n[joi, oin, ins] [To be, be or, or not]\n```",
    )
    .with_argument("text", "Text expression.")
    .with_argument("n", "Characters or words of a shingle, 1 or more.")
    .with_argument("unit", "'char' for characters (Unicode scalar values), the default, or 'word'.")
    .build()
});

/// What shingles are windows of.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Character,
    Word,
}

impl Unit {
    fn of(name: &str) -> Result<Self, String> {
        if name.eq_ignore_ascii_case("char") {
            Ok(Self::Character)
        } else if name.eq_ignore_ascii_case("word") {
            Ok(Self::Word)
        } else {
            Err(format!(
                "{NAME} takes 'char' or 'word' as its third argument, not '{name}'"
            ))
        }
    }
}

/// The length of a window.
fn length_of(n: i64) -> Result<usize, String> {
    let length = usize::try_from(n).ok().filter(|length| *length > 0);
    length.ok_or_else(|| {
        format!("{NAME} takes an n of 1 or more, not {n}: n is how many characters or words a shingle has")
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shingles {
    signature: Signature,
}

impl Shingles {
    /// Whether a third argument asks for windows of characters.
    pub(crate) fn is_of_characters(unit: &ScalarValue) -> bool {
        let unit = unit.try_as_str().flatten();
        matches!(unit.map(Unit::of), Some(Ok(Unit::Character)))
    }

    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

fn shingles_of<'a>(texts: impl StringArrayType<'a>, arguments: &Arguments) -> Result<ArrayRef> {
    let lengths = arguments.integers(NAME, 1)?;
    let units = match arguments.arrays.get(2) {
        Some(units) => {
            let text = units.as_string_opt::<i32>();
            Some(text.ok_or_else(|| not_coerced(NAME, units.data_type()))?)
        }
        None => None,
    };
    let mut lists = TextLists::new(NAME, arguments.rows);
    let mut words = Words::default();
    for row in 0..arguments.rows {
        if !arguments.is_null(row) {
            let text = texts.value(arguments.at(0, row));
            let n = lengths.value(arguments.at(1, row));
            let n = length_of(n).map_err(DataFusionError::Execution)?;
            let unit = match units {
                Some(units) => Unit::of(units.value(arguments.at(2, row))),
                None => Ok(Unit::Character),
            };
            match unit.map_err(DataFusionError::Execution)? {
                Unit::Character => push_characters(text, n, &mut lists)?,
                Unit::Word => words.push(text, n, &mut lists)?,
            }
        }
        lists.end_list();
    }
    lists.finish(arguments.nulls.clone())
}

impl ScalarUDFImpl for Shingles {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let (text, n, unit) = match arguments {
            [text, n] => (text, n, None),
            [text, n, unit] => (text, n, Some(unit)),
            other => {
                return plan_err!(
                    "{NAME} takes a text, the length of a shingle, and 'char' or 'word' if need be, not {} arguments",
                    other.len()
                );
            }
        };
        let mut types = vec![text_type(NAME, text)?, integer_type(NAME, n)?];
        if let Some(unit) = unit {
            text_type(NAME, unit)?;
            types.push(DataType::Utf8);
        }
        Ok(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(text_list())
    }

    /// Constants that are wrong are errors of planning, whatever rows there are.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(n) = constant_integer(&args, 1) {
            length_of(n).map_err(DataFusionError::Plan)?;
        }
        if let Some(unit) = constant_text(&args, 2) {
            Unit::of(unit).map_err(DataFusionError::Plan)?;
        }
        Ok(Arc::new(Field::new(NAME, text_list(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = Arguments::of(&args)?;
        let texts = &arguments.arrays[0];
        let made = match texts.data_type() {
            DataType::Utf8 => shingles_of(texts.as_string::<i32>(), &arguments),
            DataType::LargeUtf8 => shingles_of(texts.as_string::<i64>(), &arguments),
            DataType::Utf8View => shingles_of(texts.as_string_view(), &arguments),
            other => Err(not_coerced(NAME, other)),
        };
        arguments.result(made?)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}
