//! A worker's own options beside those of a session.

use datafusion::config::ExtensionOptions;
use datafusion::error::Result;
use datafusion_bowtie::BowtieOptions;

/// A worker's own options, where a session has not set another value: one that is not the default counts.
///
/// All options of a session have values, so that a session that says nothing of devices would otherwise say `auto`.
///
/// # Errors
/// If there is no such option, or it cannot have the value.
pub(crate) fn options_over<'a>(
    own: &BowtieOptions,
    session: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<BowtieOptions> {
    let defaults = BowtieOptions::default().entries();
    let mut options = own.clone();
    for (name, value) in session {
        let name = name.strip_prefix("bowtie.").unwrap_or(name);
        let is_default = defaults.iter().any(|known| {
            known.key.strip_prefix("bowtie.").unwrap_or(&known.key) == name
                && known.value.as_deref() == Some(value)
        });
        if !is_default {
            options.set(name, value)?;
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(options: &BowtieOptions, name: &str) -> Option<String> {
        let entries = options.entries().into_iter();
        let mut of_name = entries.filter(|entry| entry.key == format!("bowtie.{name}"));
        of_name.next()?.value
    }

    #[test]
    fn a_session_overrides_what_it_sets() {
        let mut own = BowtieOptions::default();
        own.set("device", "host").unwrap();
        own.set("device_memory", "64MB").unwrap();
        let mut session = BowtieOptions::default();
        session.set("offload", "force").unwrap();
        session.set("device_memory", "32MB").unwrap();
        let entries = session.entries();
        let set = entries
            .iter()
            .filter_map(|entry| Some((entry.key.as_str(), entry.value.as_deref()?)));
        let options = options_over(&own, set).unwrap();
        assert_eq!(value(&options, "device").as_deref(), Some("host"));
        assert_eq!(value(&options, "offload").as_deref(), Some("force"));
        assert_eq!(
            value(&options, "device_memory"),
            value(&session, "device_memory")
        );
    }

    #[test]
    fn unknown_options_are_refused() {
        let error = options_over(&BowtieOptions::default(), [("of_the_future", "on")]);
        assert!(error.unwrap_err().to_string().contains("of_the_future"));
    }
}
