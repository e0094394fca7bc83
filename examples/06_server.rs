//! A server whose clients share one budget of device memory: a session for each connection, all of one `BowtieRuntime`.
//!
//! A client sends a line of SQL and gets the rows as a table, or `error: …`, and an empty line behind. The program starts the
//! server, queries it from sixteen clients at the same time, and ends.
//!
//! ```text
//! cargo run --release --example 06_server
//! ```

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_bowtie::{BowtieRuntime, BowtieSessionExt};
use tokio::runtime::Handle;

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights.parquet");

/// What all queries together may use of the device, or of the host's memory where there is none: less than four of
/// the queries below take, so some wait for others.
const BUDGET: u64 = 4 << 20;

const CLIENTS: usize = 16;

#[tokio::main]
async fn main() -> Result<()> {
    let runtime = BowtieRuntime::with_device_memory(BUDGET);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = Server {
        runtime: Arc::clone(&runtime),
        handle: Handle::current(),
    };
    thread::spawn(move || server.serve(&listener));

    let answers = tokio::task::spawn_blocking(move || all_at_once(address)).await;
    for answer in answers.expect("the clients end")? {
        println!("{answer}");
    }
    for memory in runtime.device_memory() {
        println!(
            "{}: at most {} of {} bytes were in use at the same time",
            memory.device, memory.peak, memory.limit
        );
        assert!(memory.peak <= BUDGET);
    }
    Ok(())
}

struct Server {
    runtime: Arc<BowtieRuntime>,
    handle: Handle,
}

impl Server {
    /// A thread for each connection. It only waits: queries run on the threads of Tokio and of the device.
    fn serve(&self, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            let runtime = Arc::clone(&self.runtime);
            let handle = self.handle.clone();
            thread::spawn(move || {
                let done = handle.block_on(connected(&stream, runtime));
                if let Err(error) = done {
                    eprintln!("a connection ended: {error}");
                }
            });
        }
    }
}

/// Answers the lines of one client. Options that it sets are those of its own session.
async fn connected(stream: &TcpStream, runtime: Arc<BowtieRuntime>) -> Result<()> {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_bowtie_runtime(runtime)?
        .build();
    let ctx = SessionContext::new_with_state(state);
    ctx.register_parquet("flights", FLIGHTS, ParquetReadOptions::default())
        .await?;

    let mut output = BufWriter::new(stream);
    for line in BufReader::new(stream).lines() {
        // A query that fails is the client's own: the others, and its next one, go on.
        match table(&ctx, &line?).await {
            Ok(table) => writeln!(output, "{table}")?,
            Err(error) => writeln!(output, "error: {}", error.strip_backtrace())?,
        }
        writeln!(output)?;
        output.flush()?;
    }
    Ok(())
}

async fn table(ctx: &SessionContext, sql: &str) -> Result<String> {
    let batches = ctx.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

/// Each client asks for the planes that were under way at each departure of one day. The first one also sends what
/// fails.
fn all_at_once(address: SocketAddr) -> Result<Vec<String>> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| thread::spawn(move || ask(address, client + 1)))
        .collect();
    clients
        .into_iter()
        .map(|client| client.join().expect("a client ends"))
        .collect()
}

fn ask(address: SocketAddr, day: usize) -> Result<String> {
    let stream = TcpStream::connect(address)?;
    let mut client = Client {
        lines: BufReader::new(&stream),
        stream: &stream,
    };
    if day == 1 {
        let answer = client.query("SELECT * FROM flights WHERE price > 9")?;
        assert!(answer[0].starts_with("error: "), "{answer:?}");
    }
    let begun = Instant::now();
    let answer = client.query(&format!(
        "SELECT max(under_way) AS most, count(*) AS departures \
         FROM (SELECT b.flight_id, count(*) AS under_way \
               FROM flights a JOIN flights b ON a.dep <= b.dep AND b.dep < a.arr \
               WHERE date_part('day', b.dep) = {day} GROUP BY b.flight_id)"
    ))?;
    let [_, _, _, row, _] = &answer[..] else {
        panic!("a table of one row: {answer:?}");
    };
    Ok(format!("January {day:>2}: {row}  {:.1?}", begun.elapsed()))
}

struct Client<'a> {
    lines: BufReader<&'a TcpStream>,
    stream: &'a TcpStream,
}

impl Client<'_> {
    /// The lines of an answer, up to the empty one.
    fn query(&mut self, sql: &str) -> Result<Vec<String>> {
        writeln!(self.stream, "{sql}")?;
        let mut answer = vec![];
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line)?;
            match line.trim_end() {
                "" => return Ok(answer),
                text => answer.push(text.to_string()),
            }
        }
    }
}
