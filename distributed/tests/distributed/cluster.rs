//! Processes of the binary.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use url::Url;

/// The binary: BOWTIE_CLUSTER, or the one that Cargo built on this machine.
fn binary() -> OsString {
    std::env::var_os("BOWTIE_CLUSTER")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_bowtie-cluster").into())
}

/// A process that ends with its value.
pub(crate) struct Process(Child);

impl Process {
    /// `arguments` of the binary, in an environment with `variables` beside the tests' own.
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .env("BOWTIE_DEVICE", device())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// The address that it says it listens on.
    fn address(&mut self) -> String {
        let stdout = self.0.stdout.as_mut().unwrap();
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ");
        address
            .unwrap_or_else(|| panic!("it does not listen: {line}"))
            .to_string()
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// The processor time that it has used, in hundredths of seconds.
    pub(crate) fn ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.0.id());
        let text = std::fs::read_to_string(path).unwrap();
        // The name of the program, in parentheses, may have spaces.
        let fields = text.rsplit(')').next().unwrap();
        let mut fields = fields.split_whitespace().skip(11);
        let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
        next() + next()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the binary prints.
pub(crate) fn output(arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    let done = command.args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {error}");
    String::from_utf8(done.stdout).unwrap()
}

/// What the binary says where it refuses to start.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(arguments).stderr(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let begun = Instant::now();
    let ended = loop {
        if let Some(ended) = process.0.try_wait().unwrap() {
            break ended;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(!ended.success(), "{arguments:?}");
    let mut error = String::new();
    let stderr = process.0.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut error).unwrap();
    error
}

/// The first line of errors of the binary that begins to listen, and its address.
pub(crate) fn warning(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(binary());
    command.args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let address = process.address();
    let mut line = String::new();
    let stderr = process.0.stderr.as_mut().unwrap();
    BufReader::new(stderr).read_line(&mut line).unwrap();
    (line, address)
}

/// The device that workers run on: BOWTIE_TEST_DEVICE, or the CPU backend.
pub(crate) fn device() -> String {
    std::env::var("BOWTIE_TEST_DEVICE").unwrap_or_else(|_| "host".into())
}

/// Workers of datafusion-distributed.
pub(crate) struct Workers {
    pub(crate) processes: Vec<Process>,
    pub(crate) urls: Vec<Url>,
}

impl Workers {
    /// A worker for each of `variables`.
    pub(crate) fn start(variables: &[&[(&str, &str)]]) -> Self {
        let mut processes: Vec<Process> = variables
            .iter()
            .map(|variables| Process::start(&["worker", "--listen", "127.0.0.1:0"], variables))
            .collect();
        let urls = processes.iter_mut().map(Process::address);
        let urls = urls.map(|address| address.parse().unwrap()).collect();
        Self { processes, urls }
    }
}

/// A scheduler and executors of Ballista.
pub(crate) struct Executors {
    pub(crate) processes: Vec<Process>,
    _scheduler: Process,
    /// Of the scheduler.
    pub(crate) url: String,
    /// Of the executors.
    pub(crate) ports: Vec<String>,
}

impl Executors {
    /// An executor of two slots for each of `variables`. Their files are in `folder`.
    pub(crate) fn start(folder: &Path, variables: &[&[(&str, &str)]]) -> Self {
        let scheduler = [
            "scheduler",
            "--listen",
            "127.0.0.1:0",
            "--host",
            "127.0.0.1",
        ];
        let scheduler = [&scheduler[..], &["--executor-timeout", "6"]].concat();
        let mut scheduler = Process::start(&scheduler, &[]);
        let url = scheduler.address();
        let port = url.rsplit(':').next().unwrap().to_string();
        let mut of_executors = vec![];
        let processes = variables.iter().enumerate().map(|(i, variables)| {
            // Ports that were free a moment ago: the engine cannot say which one it has taken.
            let free = || TcpListener::bind("127.0.0.1:0").unwrap();
            let ports = [free(), free()].map(|free| free.local_addr().unwrap().port().to_string());
            of_executors.push(ports[0].clone());
            let work_dir = folder.join(format!("executor-{i}"));
            let arguments = [
                "executor",
                "--scheduler-host",
                "127.0.0.1",
                "--scheduler-port",
                &port,
                "--port",
                &ports[0],
                "--task-port",
                &ports[1],
                "--work-dir",
                work_dir.to_str().unwrap(),
                "--slots",
                "2",
                "--heartbeat",
                "1",
            ];
            Process::start(&arguments, variables)
        });
        Self {
            processes: processes.collect(),
            _scheduler: scheduler,
            url,
            ports: of_executors,
        }
    }
}
