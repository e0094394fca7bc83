//! `cargo bench --bench group`: grouped aggregation. First sweeps after [W] 5.2 on resident data, each strategy (SUM of
//! 8 bytes, where [W] takes MAX of two columns of 4); then the same aggregation from SQL to rows, beside DataFusion's
//! on the same cores.
//!
//! ```text
//! cargo bench --bench group                         sizes for a machine without a GPU
//! cargo bench --bench group -- --large              2^28 rows, up to 2^26 groups
//! cargo bench --bench group -- --filter dense       one sweep; `sum` is the query
//! cargo bench --bench group -- --paper              [W] figures 15, 17, 18 and 20 (`group/paper.rs`)
//! ```
//!
//! [W]: Wu, Koutsoukos, Alonso: Efficiently Processing Joins and Grouped Aggregations on GPUs, 2025.

#[path = "group/maxima.rs"]
mod maxima;
#[path = "group/paper.rs"]
mod paper;
#[path = "group/queries.rs"]
mod queries;
mod support;
#[path = "group/sweeps.rs"]
mod sweeps;

use support::Result;
use support::arguments::Arguments;
use support::paper::Paper;

#[tokio::main]
async fn main() {
    support::main("group", run()).await;
}

async fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    if arguments.paper {
        let mut file = Paper::create("group", &arguments)?;
        paper::run(&arguments, &mut file)?;
        maxima::run(&arguments, &mut file).await?;
        file.finish();
        return Ok(());
    }
    sweeps::run(&arguments)?;
    queries::run(&arguments).await
}
