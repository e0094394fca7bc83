//! `cargo bench --bench equi`: equi-joins. First sweeps after [W] 5.1 on resident data, each strategy and
//! materialisation; then the same join from SQL to rows, beside DataFusion's hash join on the same cores.
//!
//! ```text
//! cargo bench --bench equi                          sizes for a machine without a GPU
//! cargo bench --bench equi -- --large               those of [W], up to 2^27 by 2^28 rows
//! cargo bench --bench equi -- --filter anchors      one sweep; `rows` and `sum` are the queries
//! cargo bench --bench equi -- --paper               [W] figures 6 to 9 and 11 to 14 (`equi/paper.rs`)
//! ```
//!
//! [W]: Wu, Koutsoukos, Alonso: Efficiently Processing Joins and Grouped Aggregations on GPUs, 2025.

#[path = "equi/paper.rs"]
mod paper;
#[path = "equi/queries.rs"]
mod queries;
mod support;
#[path = "equi/sweeps.rs"]
mod sweeps;

use support::Result;
use support::arguments::Arguments;

#[tokio::main]
async fn main() {
    support::main("equi", run()).await;
}

async fn run() -> Result<()> {
    let arguments = Arguments::from_command_line()?;
    if arguments.paper {
        return paper::run(&arguments);
    }
    sweeps::run(&arguments)?;
    queries::run(&arguments).await
}
