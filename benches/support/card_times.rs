//! The card's times of one run of a query: kernels and copies, by events around each of them. [T], [D] and [W] state times
//! of kernels, which these are to be compared with.

use datafusion::prelude::SessionContext;

use super::Result;

/// Metrics that tell which algorithm an operator used; `taken` lists those of a run.
const WAYS: [&str; 12] = [
    "counted_walk",
    "counted_tiles",
    "counted_wavelet_tree",
    "weighed",
    "sliced",
    "by_pairs",
    "by_hash_shared",
    "by_hash_global",
    "by_partition",
    "by_sort",
    "by_sort_dict",
    "by_runs",
];

/// Milliseconds, each a sum over all launches or copies.
#[derive(Clone, Debug)]
pub struct CardTimes {
    pub kernels: f64,
    pub to_device: f64,
    pub to_host: f64,
    /// The algorithms that operators used.
    pub taken: String,
}

/// Runs a query once; `None` if no kernel ran, or if the profile did not keep all spans.
pub async fn of(ctx: &SessionContext, sql: &str) -> Result<Option<CardTimes>> {
    let query = ctx.sql(sql).await?;
    let profile = datafusion_bowtie::profile(query).await?.to_json();
    let went = |way: &&str| {
        profile.contains(&format!("[\"{way}\",\""))
            && !profile.contains(&format!("[\"{way}\",\"0\"]"))
    };
    let taken: Vec<&str> = WAYS.into_iter().filter(went).collect();
    let times = CardTimes {
        kernels: lane_ms(&profile, "kernels"),
        to_device: lane_ms(&profile, "to_device"),
        to_host: lane_ms(&profile, "to_host"),
        taken: taken.join(" "),
    };
    let is_whole = profile.contains("\"dropped\":0");
    Ok((is_whole && times.kernels > 0.0).then_some(times))
}

/// The sum of a lane's spans. A span's `lane` stands before its `ms`.
fn lane_ms(profile: &str, lane: &str) -> f64 {
    let mark = format!("\"lane\":\"{lane}\"");
    let spans = profile.split(mark.as_str()).skip(1);
    spans
        .filter_map(|span| {
            let (_, value) = span.split_once("\"ms\":")?;
            let end = value.find([',', '}'])?;
            value[..end].parse::<f64>().ok()
        })
        .sum()
}
