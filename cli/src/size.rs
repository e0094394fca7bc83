//! Sizes with a unit, such as `10g`, as arguments.

/// The bytes of a size with an optional unit: `b`, `k`, `m`, `g`, `t`, `kb`, `gib`, … in powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let shift = match unit.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong(text)),
    };
    let number: usize = number.parse().map_err(|_| wrong(text))?;
    number.checked_mul(1 << shift).ok_or_else(|| wrong(text))
}

fn wrong(text: &str) -> String {
    format!("'{text}' is no size: use a number with a unit, such as 512m or 10g")
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("10g"), Ok(10 << 30));
        assert_eq!(parse_size("7"), Ok(7));
        assert_eq!(parse_size("2 KiB"), Ok(2048));
        for wrong in ["", "g", "10x", "-1", "1.5g", "99999999999999t"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
