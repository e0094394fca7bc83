//! What this package calls of datafusion-bowtie besides the session: reports of plans, and profiles of queries.

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::prelude::DataFrame;

/// A plan with the reason of each node.
pub struct Explained {
    pub text: String,
    pub nodes: RecordBatch,
}

/// Plans a query and explains every node. Nothing runs.
pub async fn explain(query: DataFrame) -> Result<Explained> {
    let report = datafusion_bowtie::explain(&query).await?;
    Ok(Explained {
        text: report.to_string(),
        nodes: report.to_batch()?,
    })
}

/// How a query ran.
pub struct Profiled {
    pub html: String,
    pub json: String,
    pub text: String,
}

/// Runs a query and measures each node. The page shows its text.
pub async fn profile(query: DataFrame, sql: Option<&str>) -> Result<Profiled> {
    let profile = datafusion_bowtie::profile(query).await?;
    let profile = match sql {
        Some(sql) => profile.with_sql(sql),
        None => profile,
    };
    Ok(Profiled {
        html: profile.to_html(),
        json: profile.to_json(),
        text: profile.to_string(),
    })
}
