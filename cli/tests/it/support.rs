//! Runs the binary without what the machine's user has set.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};

use tempfile::TempDir;

/// The binary: BOWTIE_SQL, or the one that Cargo built on this machine.
fn binary() -> OsString {
    std::env::var_os("BOWTIE_SQL").unwrap_or_else(|| env!("CARGO_BIN_EXE_bowtie-sql").into())
}

/// The device on which queries run whose rows are compared: BOWTIE_TEST_DEVICE, or the CPU backend.
pub(crate) fn device() -> String {
    std::env::var("BOWTIE_TEST_DEVICE").unwrap_or_else(|_| "host".into())
}

/// A folder with a home of its own, in which the binary runs.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, and returns its name.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path().join(name), text).unwrap();
        name.to_string()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env("XDG_DATA_HOME", self.path().join("data"))
            .stdin(Stdio::null());
        for (name, _) in std::env::vars() {
            if name.starts_with("BOWTIE_") || name.starts_with("DATAFUSION_") {
                command.env_remove(name);
            }
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Its exit code, what it prints and what it complains about, with a text from a pipe.
    pub(crate) fn piped(&self, arguments: &[&str], text: &str) -> (Option<i32>, String, String) {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // It may have ended before all is read.
        input.write_all(text.as_bytes()).ok();
        drop(input);
        let output = child.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }

    /// What it prints; it must succeed.
    pub(crate) fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it complains about; it must fail.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A server on this machine that has `body` as each of its files, in parts if it is asked for them, as object stores have. Its address, and the paths
/// that it is asked for.
pub(crate) fn serve(body: &'static str) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, paths) = mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (connection, sender) = (connection.unwrap(), sender.clone());
            std::thread::spawn(move || {
                answer(connection, body, &sender);
            });
        }
    });
    (address, paths)
}

/// Answers the request of a connection, if there is one, and tells its path before.
fn answer(mut connection: TcpStream, body: &str, paths: &Sender<String>) -> Option<()> {
    let lines = BufReader::new(connection.try_clone().ok()?).lines();
    let head: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let mut request = head.first()?.split(' ');
    let (method, path) = (request.next()?, request.next()?);
    let asked = head.iter().find_map(|line| {
        let line = line.to_ascii_lowercase();
        let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    let (status, part, range) = match asked {
        None => ("200 OK", body, String::new()),
        Some((first, last)) => {
            let last = last.min(body.len() - 1);
            let range = format!("Content-Range: bytes {first}-{last}/{}\r\n", body.len());
            ("206 Partial Content", &body[first..=last], range)
        }
    };
    let length = part.len();
    let part = if method == "HEAD" { "" } else { part };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{range}ETag: \"1\"\r\n\
         Last-Modified: Sun, 01 Jan 2023 00:00:00 GMT\r\nConnection: close\r\n\r\n{part}"
    );
    paths.send(path.to_string()).ok()?;
    connection.write_all(answer.as_bytes()).ok()
}
