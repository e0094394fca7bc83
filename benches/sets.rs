//! `cargo bench --bench sets`: self joins of clones of [B]'s data sets (`sets/clones.rs`). First by the device's
//! primitives, `auto` and each technique, beside the figures that [B] published (`sets/published.csv`); then from SQL
//! to rows, beside DataFusion's nested loops on the same cores: containment, overlaps and similarities of the clones
//! (`sets/queries.rs`), near-duplicates among titles and their clusters, from text (`sets/text_queries.rs`).
//!
//! ```text
//! cargo bench --bench sets                             sizes for a machine without a GPU
//! cargo bench --bench sets -- --large                  data sets of up to 40M elements whole, 100,000 sets of others
//! cargo bench --bench sets -- --full                   every data set as large as in [B]
//! cargo bench --bench sets -- --filter device/         the primitives; device/similarity-AOL,
//!                                                      device/containment-BMS-POS/10K, …
//! cargo bench --bench sets -- --filter sql/            the queries; sql/jaccard-0.7/10K, sql/near-duplicates/100K, …
//! cargo bench --bench sets -- --paper                  [B] tables 5.9, 5.11, 5.13, B.1, B.2 (`sets/paper.rs`)
//! cargo bench --bench sets -- --export target/bench/tables    for benches/rivals/sets.py
//! ```
//!
//! [B]: Bellas: Advanced Joins on GPUs, 2022.

#[path = "sets/clones.rs"]
mod clones;
#[path = "sets/oracle.rs"]
mod oracle;
#[path = "sets/overlaps.rs"]
mod overlaps;
#[path = "sets/paper.rs"]
mod paper;
#[path = "sets/published.rs"]
mod published;
#[path = "sets/queries.rs"]
mod queries;
mod support;
#[path = "sets/sweeps.rs"]
mod sweeps;
#[path = "sets/text_oracle.rs"]
mod text_oracle;
#[path = "sets/text_queries.rs"]
mod text_queries;
#[path = "sets/titles.rs"]
mod titles;

use support::Result;
use support::arguments::Arguments;
use support::paper::Paper;

#[tokio::main]
async fn main() {
    support::main("sets", run()).await;
}

async fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    if let Some(dir) = &arguments.export {
        return queries::export(&arguments, dir).await;
    }
    if arguments.paper {
        let mut file = Paper::create("sets", &arguments)?;
        paper::run(&arguments, &mut file)?;
        overlaps::run(&arguments, &mut file).await?;
        file.finish();
        return Ok(());
    }
    sweeps::run(&arguments)?;
    queries::run(&arguments).await
}
