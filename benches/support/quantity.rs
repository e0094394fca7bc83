//! Counts and rates with metric prefixes: `50K`, `1.13G`.

const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")];

/// Three significant digits and a thousands letter: `950`, `55K`, `1.13G`.
pub fn short(value: f64) -> String {
    for (step, letter) in STEPS {
        // 999.5 and up would print as four digits of the smaller step.
        if value >= step * 0.9995 {
            return format!("{}{letter}", digits(value / step));
        }
    }
    digits(value)
}

/// Three significant digits, without trailing zeros behind the point.
pub fn digits(value: f64) -> String {
    let text = match value {
        v if v >= 99.95 => return format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.9995 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
