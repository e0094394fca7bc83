//! The EXPLAIN text of a join.

use std::fmt;

use crate::spec::join::JoinSpec;

/// Join type, strategy, condition and device, on one line.
pub(crate) fn fmt_join(spec: &JoinSpec, device: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "device={}, join_type={}, strategy={}, build={}",
        device,
        spec.kind,
        spec.theta.strategy(),
        spec.theta.build
    )?;
    if !spec.display.keys.is_empty() {
        write!(f, ", on=[{}]", spec.display.keys.join(", "))?;
    }
    if spec.null_aware {
        write!(f, ", null_aware")?;
    }
    if let Some(set) = &spec.display.set {
        write!(f, ", set={set}")?;
    }
    if !spec.display.theta.is_empty() {
        write!(f, ", theta=[{}]", spec.display.theta.join(", "))?;
    }
    if let Some(partners) = spec.kept_partners() {
        write!(f, ", partners={partners}")?;
    }
    if let Some(program) = &spec.display.program {
        write!(f, ", compiled_filter={program}")?;
    }
    if let Some(residual) = &spec.display.residual {
        write!(f, ", residual={residual}")?;
    }
    Ok(())
}

/// The same, one property a line.
pub(crate) fn fmt_join_tree(
    spec: &JoinSpec,
    device: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "device={device}")?;
    writeln!(f, "join_type={}", spec.kind)?;
    writeln!(f, "strategy={}", spec.theta.strategy())?;
    writeln!(f, "build={}", spec.theta.build)?;
    if !spec.display.keys.is_empty() {
        writeln!(f, "on={}", spec.display.keys.join(", "))?;
    }
    if spec.null_aware {
        writeln!(f, "null_aware")?;
    }
    if let Some(set) = &spec.display.set {
        writeln!(f, "set={set}")?;
    }
    if !spec.display.theta.is_empty() {
        writeln!(f, "theta={}", spec.display.theta.join(", "))?;
    }
    if let Some(partners) = spec.kept_partners() {
        writeln!(f, "partners={partners}")?;
    }
    if let Some(program) = &spec.display.program {
        writeln!(f, "compiled_filter={program}")?;
    }
    match &spec.display.residual {
        Some(residual) => writeln!(f, "residual={residual}"),
        None => Ok(()),
    }
}
