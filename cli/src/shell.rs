//! The shell: statements of the command line, of files, of standard input, or typed.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::dialect::{GenericDialect, dialect_from_str};
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::helper::CliHelper;
use datafusion_cli::object_storage::is_stdin_location;
use datafusion_cli::print_options::PrintOptions;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;

use crate::arguments::{Arguments, ShowProgress};
use crate::progress::Progress;
use crate::session;
use crate::statements::{Input, Statements};
use crate::stop::Running;
use crate::watch::Watched;

/// Runs what the command line asks for.
pub(crate) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let has_none = arguments.statements.is_empty() && arguments.file.is_empty();
    let is_typed = has_none && std::io::stdin().is_terminal();
    let from_stdin = |file: &PathBuf| is_stdin_location(&file.to_string_lossy());
    let reads_stdin = has_none || arguments.file.iter().any(from_stdin);
    let session = session::open(&arguments.session, reads_stdin).await?;
    if !arguments.quiet && is_typed {
        println!(
            "bowtie-sql {}, DataFusion {}",
            env!("CARGO_PKG_VERSION"),
            datafusion::DATAFUSION_VERSION
        );
    }
    let progress = match (arguments.progress, arguments.quiet) {
        (ShowProgress::Auto, false) => Progress::on_terminal(),
        _ => Progress::hidden(),
    };
    let context = Watched {
        context: session.context,
        progress,
        // Where nobody types, Ctrl-C ends the process.
        running: is_typed.then(Running::default),
    };
    let mut print = PrintOptions {
        format: arguments.format,
        quiet: arguments.quiet,
        maxrows: arguments.maxrows,
        color: arguments.color,
        instrumented_registry: session.requests,
    };
    if has_none {
        run_files(&context, &rc_files(arguments), &mut print).await?;
    }
    if let Some(running) = &context.running {
        running.stop_at_ctrl_c()?;
        read_and_run(&context, running, &mut print).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if has_none {
        let input = Script::new("standard input".into(), std::io::stdin().lock());
        run_script(&context, input, &mut print).await?;
    }
    run_files(&context, &arguments.file, &mut print).await?;
    exec_from_commands(&context, arguments.statements.clone(), &print).await?;
    Ok(ExitCode::SUCCESS)
}

/// The files that are run before the first typed statement.
fn rc_files(arguments: &Arguments) -> Vec<PathBuf> {
    if let Some(files) = &arguments.rc {
        return files.clone();
    }
    let of_home = dirs::home_dir().map(|home| home.join(".datafusionrc"));
    of_home.into_iter().filter(|file| file.exists()).collect()
}

/// Runs the statements and commands of files, up to the first one that fails.
pub(crate) async fn run_files(
    context: &Watched,
    files: &[PathBuf],
    print: &mut PrintOptions,
) -> Result<()> {
    for file in files {
        run_script(context, Script::open(file)?, print).await?;
    }
    Ok(())
}

/// A text with statements, and its name.
struct Script {
    name: String,
    statements: Statements<Box<dyn BufRead>>,
}

impl Script {
    fn new(name: String, lines: impl BufRead + 'static) -> Self {
        Self {
            name,
            statements: Statements::new(Box::new(lines)),
        }
    }

    fn open(file: &Path) -> Result<Self> {
        let name = file.display().to_string();
        match File::open(file) {
            Ok(file) => Ok(Self::new(name, BufReader::new(file))),
            Err(error) => Err(cannot_read(&name, &error)),
        }
    }

    fn next(&mut self, context: &Watched) -> Result<Option<Input>> {
        let dialect = dialect_from_str(context.dialect());
        let dialect = dialect.unwrap_or_else(|| Box::new(GenericDialect));
        let next = self.statements.next(dialect.as_ref());
        next.map_err(|error| cannot_read(&self.name, &error))
    }
}

fn cannot_read(name: &str, error: &std::io::Error) -> DataFusionError {
    DataFusionError::Execution(format!("cannot read {name}: {error}"))
}

/// Runs the statements and commands of a text and of the files that it includes, up to the first one that fails.
async fn run_script(context: &Watched, script: Script, print: &mut PrintOptions) -> Result<()> {
    let mut open = vec![script];
    while let Some(script) = open.last_mut() {
        match script.next(context)? {
            Some(Input::Statement(sql)) => exec_from_commands(context, vec![sql], print).await?,
            Some(Input::Command(line)) => match run_command(context, print, &line).await? {
                Next::Read => {}
                Next::Include(file) => open.push(Script::open(&file)?),
                Next::Leave => drop(open.pop()),
            },
            None => drop(open.pop()),
        }
    }
    Ok(())
}

/// Where typed statements are remembered.
fn history_file() -> Option<PathBuf> {
    let folder = dirs::data_dir()?.join("bowtie-sql");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// Reads statements until the end of the input.
async fn read_and_run(
    context: &Watched,
    running: &Running,
    print: &mut PrintOptions,
) -> Result<()> {
    let failed = |error: ReadlineError| DataFusionError::External(Box::new(error));
    let mut editor: Editor<CliHelper, DefaultHistory> = Editor::new().map_err(failed)?;
    editor.set_helper(Some(CliHelper::new(&context.dialect(), print.color)));
    let history = history_file();
    if let Some(file) = &history {
        editor.load_history(file).ok();
    }
    loop {
        match editor.readline("bowtie> ") {
            Ok(line) => {
                // A terminal that keeps no history is none to stop for.
                editor.add_history_entry(line.trim_end()).ok();
                if run_interruptibly(context, running, print, &line).await == Next::Leave {
                    break;
                }
                if let Some(helper) = editor.helper_mut() {
                    helper.set_dialect(&context.dialect());
                }
            }
            Err(ReadlineError::Interrupted) => {
                println!("^C");
                if let Some(helper) = editor.helper() {
                    helper.reset_hint();
                }
            }
            Err(ReadlineError::Eof) => {
                println!("\\q");
                break;
            }
            Err(error) => return Err(failed(error)),
        }
        save(&mut editor, history.as_deref());
    }
    save(&mut editor, history.as_deref());
    Ok(())
}

fn save(editor: &mut Editor<CliHelper, DefaultHistory>, history: Option<&Path>) {
    if let Some(file) = history {
        editor.save_history(file).ok();
    }
}

/// What follows a command.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The next line.
    Read,
    /// The statements of a file.
    Include(PathBuf),
    /// The end of the text.
    Leave,
}

/// Runs a line, until Ctrl-C. What is dropped then cancels its work on the device.
async fn run_interruptibly(
    context: &Watched,
    running: &Running,
    print: &mut PrintOptions,
    line: &str,
) -> Next {
    let stop = running.begin();
    let outcome = tokio::select! {
        biased;
        () = stop.asked() => Ok(Next::Read),
        outcome = run_line(context, print, line) => outcome,
    };
    if stop.is_asked() {
        context.progress.clear();
        println!("^C");
        return Next::Read;
    }
    outcome.unwrap_or_else(|error| {
        context.progress.clear();
        eprintln!("{error}");
        Next::Read
    })
}

async fn run_line(context: &Watched, print: &mut PrintOptions, line: &str) -> Result<Next> {
    if !line.starts_with('\\') {
        exec_from_commands(context, vec![line.to_string()], print).await?;
        return Ok(Next::Read);
    }
    match run_command(context, print, line).await? {
        Next::Include(file) => {
            run_files(context, &[file], print).await?;
            Ok(Next::Read)
        }
        next => Ok(next),
    }
}

/// Runs a line that begins with `\`.
async fn run_command(context: &Watched, print: &mut PrintOptions, line: &str) -> Result<Next> {
    let words = line.trim_start_matches('\\').split_whitespace();
    let words = words.collect::<Vec<_>>().join(" ");
    match words.parse::<Command>() {
        Ok(Command::Quit) => return Ok(Next::Leave),
        Ok(Command::Include(Some(file))) => return Ok(Next::Include(file.into())),
        Ok(Command::OutputFormat(Some(format))) => match format.parse::<OutputFormat>() {
            Ok(format) => format.execute(print)?,
            Err(()) => return Err(no_command(line)),
        },
        Ok(Command::OutputFormat(None)) => println!("Output format is {:?}.", print.format),
        Ok(command) => command.execute(context, print).await?,
        Err(()) => return Err(no_command(line)),
    }
    Ok(Next::Read)
}

fn no_command(line: &str) -> DataFusionError {
    DataFusionError::Plan(format!("{line} is no command: \\? lists them"))
}
