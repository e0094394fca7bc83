//! [`entries`]: the kernels of a PTX text, with the widths of their parameters. `build.rs` reads the repository's PTX with
//! this file, and `kernel_cache.rs` the text of a kernel that was made at run time.

/// A kernel of a PTX text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PtxEntry {
    pub(crate) name: String,
    pub(crate) parameters: Vec<PtxParameter>,
}

/// The width of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PtxParameter {
    /// A number of 32 bits.
    U32,
    /// A number of 64 bits, or an address.
    U64,
    /// A structure by value.
    ByValue { bytes: usize, align: usize },
}

/// The entries of a PTX text, in its order.
///
/// # Errors
/// The text of a parameter whose width launches do not know, or of an entry that does not end.
pub(crate) fn entries(ptx: &str) -> Result<Vec<PtxEntry>, String> {
    let without_comments: Vec<&str> = ptx
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code))
        .collect();
    let text = without_comments.join("\n");
    text.split(".entry").skip(1).map(entry).collect()
}

/// An entry from its name on.
fn entry(text: &str) -> Result<PtxEntry, String> {
    let (name, rest) = text.split_once('(').ok_or("an entry without parameters")?;
    let name = name.trim();
    let (list, _) = rest
        .split_once(')')
        .ok_or_else(|| format!("the parameters of {name} do not end"))?;
    let parameters = list.split(',').map(str::trim);
    let parameters = parameters.filter(|text| !text.is_empty()).map(|text| {
        parameter(text).ok_or_else(|| format!("{name} has a parameter of unknown width: {text}"))
    });
    Ok(PtxEntry {
        name: name.to_owned(),
        parameters: parameters.collect::<Result<_, _>>()?,
    })
}

/// `.param .u32 name` or `.param .align 8 .b8 name[16]`; `None` for other widths.
fn parameter(text: &str) -> Option<PtxParameter> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [".param", ".u32" | ".s32" | ".b32", _] => Some(PtxParameter::U32),
        [".param", ".u64" | ".s64" | ".b64", _] => Some(PtxParameter::U64),
        [".param", ".align", align, ".b8", name] => {
            let (_, bytes) = name.strip_suffix(']')?.split_once('[')?;
            Some(PtxParameter::ByValue {
                bytes: bytes.parse().ok()?,
                align: align.parse().ok()?,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_names_and_the_widths_of_their_parameters() {
        let ptx = "
.version 8.3
// .entry not_one(
.visible .entry first(
\t.param .u64 first_param_0,
\t.param .b32 first_param_1,
\t.param .align 8 .b8 first_param_2[24]
)
.maxntid 256, 1, 1
{
\tld.param.u64 \t%rd1, [first_param_0];
}
.visible .func (.param .b32 r) helper(.param .b8 p)
{
}
.entry second()
{ ret; }
";
        let by_value = PtxParameter::ByValue {
            bytes: 24,
            align: 8,
        };
        let expected = [
            (
                "first",
                vec![PtxParameter::U64, PtxParameter::U32, by_value],
            ),
            ("second", vec![]),
        ];
        let expected = expected.map(|(name, parameters)| PtxEntry {
            name: name.into(),
            parameters,
        });
        assert_eq!(entries(ptx), Ok(expected.into()));
    }

    #[test]
    fn widths_that_launches_do_not_know_are_errors() {
        for parameter in [
            ".param .u16 p",
            ".param .f64 p",
            ".param .b8 p[4]",
            ".param .align 8 .b8 p[]",
        ] {
            let error = entries(&format!(".entry k(.param .u32 q, {parameter})")).unwrap_err();
            assert!(
                error.contains("k has") && error.contains(parameter),
                "{error}"
            );
        }
        assert!(entries(".entry k(.param .u32 p").is_err());
        assert!(entries(".entry").is_err());
    }
}
