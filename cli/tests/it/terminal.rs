//! A person at a terminal: typing, history, progress, Ctrl-C.

use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::support::Home;

/// A terminal with the shell in it.
struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    /// All that was ever written, as it came.
    written: Arc<Mutex<String>>,
    keys: Box<dyn std::io::Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    _master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    fn open(home: &Home, arguments: &[&str]) -> Self {
        let size = PtySize {
            rows: 40,
            cols: 140,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let of_home = home.command(arguments);
        let mut command = CommandBuilder::new(of_home.get_program());
        command.args(of_home.get_args());
        command.cwd(home.path());
        for (name, value) in of_home.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            }
        }
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(40, 140, 1000)));
        let written = Arc::new(Mutex::new(String::new()));
        let mut output = pair.master.try_clone_reader().unwrap();
        let (seen, all) = (Arc::clone(&screen), Arc::clone(&written));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read) = output.read(&mut buffer) {
                if read == 0 {
                    break;
                }
                seen.lock().unwrap().process(&buffer[..read]);
                all.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self {
            screen,
            written,
            keys: pair.master.take_writer().unwrap(),
            child,
            _master: pair.master,
        }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn written(&self) -> String {
        self.written.lock().unwrap().clone()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the screen shows what is asked for.
    fn wait_for(&self, what: &str, is: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if is(&text) {
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no {what} on\n{text}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The lines that end with a prompt, ready for the next statement.
    fn wait_for_prompt(&self, nth: usize) {
        let is_prompt = |line: &str| line.starts_with("bowtie>");
        self.wait_for("prompt", |text| {
            let lines: Vec<&str> = text.lines().collect();
            let prompts = lines.iter().filter(|line| is_prompt(line)).count();
            // Behind an empty one a hint may stand.
            let is_empty = |last: &&str| {
                let typed = last.trim_start_matches("bowtie>").trim();
                is_prompt(last) && (typed.is_empty() || typed.starts_with("\\? for help"))
            };
            prompts >= nth && lines.last().is_some_and(is_empty)
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
    }
}

#[test]
fn statements_are_typed_and_remembered() {
    let home = Home::new();
    let mut terminal = Terminal::open(&home, &[]);
    terminal.wait_for_prompt(1);
    assert!(
        terminal.text().contains("DataFusion 55"),
        "{}",
        terminal.text()
    );
    // A statement of two lines.
    terminal.press("SELECT 40 +\r");
    terminal.press("2 AS answer;\r");
    terminal.wait_for("answer", |text| text.contains("| 42"));
    terminal.wait_for_prompt(2);
    terminal.press("SELECT nothing;\r");
    terminal.wait_for("error", |text| text.contains("No field named nothing"));
    terminal.wait_for_prompt(3);
    terminal.press("\\nonsense\r");
    terminal.wait_for("refusal", |text| text.contains("\\nonsense is no command"));
    // The statement before the last two.
    terminal.press("\u{1b}[A\u{1b}[A\u{1b}[A");
    terminal.wait_for("statement from history", |text| {
        text.trim_end().ends_with("AS answer;")
    });
    // What is typed before the shell reads again would be lost.
    terminal.press("\u{3}");
    terminal.wait_for_prompt(5);
    terminal.press("\\q\r");
    terminal.child.wait().unwrap();
    // Another session remembers.
    let mut again = Terminal::open(&home, &["-q"]);
    again.wait_for_prompt(1);
    again.press("\u{1b}[A");
    again.wait_for("statement of the last session", |text| {
        text.contains("bowtie> \\q")
    });
    again.press("\u{3}");
    again.wait_for_prompt(2);
    again.press("\u{4}");
    assert!(again.child.wait().unwrap().success());
}

/// A join that takes minutes, of 300,000 × 300,000 pairs that a filter has to test.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 300000) a(x) JOIN generate_series(1, 300000) b(y) ON (x * y) % 97 = 5;";

#[test]
fn a_long_query_shows_its_progress_and_stops_at_ctrl_c() {
    let home = Home::new();
    let mut terminal = Terminal::open(&home, &["--offload", "force", "--device", "host"]);
    terminal.wait_for_prompt(1);
    terminal.press(ENDLESS);
    terminal.press("\r");
    terminal.wait_for("progress", |text| {
        let parts = [
            " s · ",
            " rows read · ",
            " uploaded · ",
            "BowtieJoinAggregateExec",
            "host: ",
        ];
        parts.iter().all(|part| text.contains(part))
    });
    // In the middle of a long step, too, whose time is not known yet.
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(500));
        terminal.wait_for("progress", |text| text.contains("BowtieJoinAggregateExec"));
    }
    let begun = Instant::now();
    terminal.press("\u{3}");
    terminal.wait_for_prompt(2);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    // The line is gone, and the session goes on.
    assert!(!terminal.text().contains(" s · "), "{}", terminal.text());
    terminal.press("SELECT 1 + 1 AS two;\r");
    terminal.wait_for("answer", |text| text.contains("| 2 "));
    terminal.wait_for_prompt(3);
    // What was cancelled holds no memory.
    terminal.press("SELECT device, reserved_bytes FROM bowtie_devices() WHERE device = 'host';\r");
    terminal.wait_for("memory", |text| text.contains("| host   | 0 "));
}

/// DataFusion's join, whose threads test a filter for minutes without a row.
const SLOW_FILTER: &str = "SELECT count(*) FROM generate_series(1, 200000) a(x) JOIN generate_series(1, 200000) b(y) ON concat(CAST(x AS VARCHAR), CAST(y AS VARCHAR)) LIKE '%123%9%x'";

/// Types a statement that takes minutes, and Ctrl-C. The next one has its answer, and the shell ends at the end of the input.
fn stops_at_ctrl_c(statement: &str) {
    let home = Home::new();
    let mut terminal = Terminal::open(&home, &["--offload", "off"]);
    terminal.wait_for_prompt(1);
    terminal.press(&format!("{statement};\r"));
    std::thread::sleep(Duration::from_secs(2));
    terminal.press("\u{3}");
    let begun = Instant::now();
    terminal.wait_for_prompt(2);
    terminal.press("SELECT count(*) AS n FROM generate_series(1, 1000);\r");
    terminal.wait_for("answer", |text| text.contains("| 1000"));
    terminal.wait_for_prompt(3);
    terminal.press("\u{4}");
    assert!(terminal.child.wait().unwrap().success());
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{statement}: {took:?}");
}

#[test]
fn joins_of_datafusion_stop_at_ctrl_c() {
    stops_at_ctrl_c(SLOW_FILTER);
    // In one thread, which waits for Ctrl-C, too.
    stops_at_ctrl_c(&format!(
        "SET datafusion.execution.target_partitions = 1; {SLOW_FILTER}"
    ));
    stops_at_ctrl_c(&format!("CREATE TABLE t AS {SLOW_FILTER}"));
    stops_at_ctrl_c(
        "SELECT count(a.x + b.y) FROM generate_series(1, 300000) a(x) CROSS JOIN generate_series(1, 300000) b(y)",
    );
}

#[test]
fn quiet_sessions_show_no_progress() {
    let home = Home::new();
    let mut terminal = Terminal::open(&home, &["-q", "--offload", "force", "--device", "host"]);
    terminal.wait_for_prompt(1);
    terminal.press(ENDLESS);
    terminal.press("\r");
    std::thread::sleep(Duration::from_secs(2));
    terminal.press("\u{3}");
    terminal.wait_for_prompt(2);
    assert!(
        !terminal.written().contains(" s · "),
        "{}",
        terminal.written()
    );
}

/// Where errors go to a file or a pipe, nothing is written while a query runs.
#[test]
fn pipes_show_no_progress() {
    let home = Home::new();
    let mut command = home.command(&["--offload", "force", "--device", "host", "-c", ENDLESS]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().unwrap().is_none(), "the query has ended");
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
