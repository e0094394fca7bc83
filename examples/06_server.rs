//! A server whose clients share one budget of device memory: a session for each connection, all of one `BowtieRuntime`.
//!
//! A client sends a line of SQL and gets the rows as a table, or `error: …`, and an empty line behind. Clients may do nothing but
//! query the server's tables, and every client has limits of memory and time. The program starts the server, queries it from
//! sixteen clients at the same time, and ends.
//!
//! ```text
//! cargo run --release --example 06_server
//! ```

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::*;
use datafusion_bowtie::{BowtieRuntime, BowtieSessionExt};
use futures::TryStreamExt;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const FLIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights.parquet");

/// What all queries together may use of the device, or of the host's memory where there is none: less than four of
/// the queries below take, so some wait for others.
const BUDGET: u64 = 4 << 20;

/// What DataFusion's operators, and rows that wait in the host's memory, may use in all sessions together.
const POOL_BYTES: usize = 256 << 20;
/// Bytes of temporary files, of all sessions together.
const SPILLED_BYTES: u64 = 1 << 30;

const CONNECTIONS: usize = 32;
/// How long a connection may be silent, or leave an answer unread.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// DataFusion plans an expression by recursion, which a longer line may make deeper than the stack of a thread.
const LINE_BYTES: u64 = 4 << 10;
const QUERY_TIME: Duration = Duration::from_secs(30);
const RESULT_ROWS: usize = 10_000;
const RESULT_BYTES: usize = 64 << 20;

const CLIENTS: usize = 16;

/// What fails: an unknown column, statements, a function that fills the memory of all sessions, and too many rows.
const REFUSED: [&str; 6] = [
    "SELECT * FROM flights WHERE price > 9",
    "CREATE TABLE mine AS SELECT * FROM flights",
    "COPY flights TO 'mine.parquet'",
    "SET bowtie.device_memory = '1GB'",
    "SELECT * FROM bowtie_pin('flights')",
    "SELECT * FROM flights",
];

/// More threads than cores, as a query keeps its own until it waits the next time, also after its time is over.
#[tokio::main(worker_threads = 64)]
async fn main() -> Result<()> {
    let runtime = BowtieRuntime::with_device_memory(BUDGET);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = Server {
        runtime: Arc::clone(&runtime),
        memory: RuntimeEnvBuilder::new()
            .with_memory_limit(POOL_BYTES, 1.0)
            .with_max_temp_directory_size(SPILLED_BYTES)
            .build_arc()?,
        connections: Arc::new(Semaphore::new(CONNECTIONS)),
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

#[derive(Clone)]
struct Server {
    runtime: Arc<BowtieRuntime>,
    /// DataFusion's memory pool and temporary files.
    memory: Arc<RuntimeEnv>,
    connections: Arc<Semaphore>,
    handle: Handle,
}

impl Server {
    /// A thread for each connection. It only waits: queries run on the threads of Tokio and of the device.
    fn serve(&self, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
                eprintln!("a connection was refused: there are {CONNECTIONS}");
                continue;
            };
            let server = self.clone();
            thread::spawn(move || {
                if let Err(error) = server.answer(&stream, &Arc::new(permit)) {
                    eprintln!("a connection ended: {error}");
                }
            });
        }
    }

    /// Answers the lines of one client.
    fn answer(&self, stream: &TcpStream, permit: &Arc<OwnedSemaphorePermit>) -> Result<()> {
        stream.set_read_timeout(Some(IDLE_TIME))?;
        stream.set_write_timeout(Some(IDLE_TIME))?;
        let ctx = self.handle.block_on(self.session())?;
        let mut input = BufReader::new(stream);
        let mut output = BufWriter::new(stream);
        loop {
            let mut line = String::new();
            let bytes = input.by_ref().take(LINE_BYTES).read_line(&mut line)?;
            if bytes == 0 {
                return Ok(());
            }
            if bytes as u64 == LINE_BYTES && !line.ends_with('\n') {
                return exec_err!("a line had more than {LINE_BYTES} bytes");
            }
            let (sender, receiver) = mpsc::channel();
            let (ctx, permit) = (ctx.clone(), Arc::clone(permit));
            let query = self.handle.spawn(async move {
                let _ = sender.send(table(&ctx, &line).await);
                // Until here it counts as a connection, even if the client is gone.
                drop(permit);
            });
            // This thread waits, as Tokio's clock stands still while all of its threads are busy.
            let Ok(answer) = receiver.recv_timeout(QUERY_TIME) else {
                query.abort();
                writeln!(
                    output,
                    "error: the query failed, or took more than {QUERY_TIME:?}\n"
                )?;
                return exec_err!("a query failed, or took more than {QUERY_TIME:?}");
            };
            // A query that fails is the client's own: the others, and its next one, go on.
            match answer {
                Ok(table) => writeln!(output, "{table}")?,
                Err(error) => writeln!(output, "error: {}", error.strip_backtrace())?,
            }
            writeln!(output)?;
            output.flush()?;
        }
    }

    async fn session(&self) -> Result<SessionContext> {
        let state = SessionStateBuilder::new()
            .with_runtime_env(Arc::clone(&self.memory))
            .with_default_features()
            .with_bowtie_runtime(Arc::clone(&self.runtime))?
            .build();
        let ctx = SessionContext::new_with_state(state);
        // They list the files of other sessions, and fill the memory that all share.
        for function in ["bowtie_cache", "bowtie_pin", "bowtie_unpin"] {
            ctx.deregister_udtf(function);
        }
        ctx.register_parquet("flights", FLIGHTS, ParquetReadOptions::default())
            .await?;
        Ok(ctx)
    }
}

/// The rows of a query. Other statements do not run.
async fn table(ctx: &SessionContext, sql: &str) -> Result<String> {
    let only_queries = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let query = ctx.sql_with_options(sql, only_queries).await?;
    let mut stream = query.execute_stream().await?;
    let (mut batches, mut rows, mut bytes) = (vec![], 0, 0);
    while let Some(batch) = stream.try_next().await? {
        rows += batch.num_rows();
        if rows > RESULT_ROWS {
            return exec_err!("the result has more than {RESULT_ROWS} rows: add a LIMIT");
        }
        bytes += batch.get_array_memory_size();
        if bytes > RESULT_BYTES {
            return exec_err!("the result has more than {RESULT_BYTES} bytes");
        }
        batches.push(batch);
    }
    Ok(pretty_format_batches(&batches)?.to_string())
}

/// Each client asks for the planes that were under way at each departure of one day. The first one also sends what is
/// refused.
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
    for sql in REFUSED.into_iter().filter(|_| day == 1) {
        let answer = client.query(sql)?;
        assert!(answer[0].starts_with("error: "), "{sql}: {answer:?}");
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
