//! The shell: statements of the command line, of files, or typed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datafusion::error::{DataFusionError, Result};
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
use crate::watch::Watched;

/// Runs what the command line asks for.
pub(crate) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let is_typed = arguments.statements.is_empty() && arguments.file.is_empty();
    let from_stdin = |file: &PathBuf| is_stdin_location(&file.to_string_lossy());
    let reads_stdin = is_typed || arguments.file.iter().any(from_stdin);
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
    };
    let mut print = PrintOptions {
        format: arguments.format,
        quiet: arguments.quiet,
        maxrows: arguments.maxrows,
        color: arguments.color,
        instrumented_registry: session.requests,
    };
    if is_typed {
        run_files(&context, &rc_files(arguments), &print).await?;
        read_and_run(&context, &mut print).await?;
        return Ok(ExitCode::SUCCESS);
    }
    run_files(&context, &arguments.file, &print).await?;
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

/// Runs the statements of files, up to the first one that fails.
pub(crate) async fn run_files(
    context: &Watched,
    files: &[PathBuf],
    print: &PrintOptions,
) -> Result<()> {
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| {
            DataFusionError::Execution(format!("cannot read {}: {error}", file.display()))
        })?;
        // The line that names the shell of a script.
        let text = match text.starts_with("#!") {
            true => text.split_once('\n').map_or("", |(_, rest)| rest),
            false => &text,
        };
        exec_from_commands(context, vec![text.to_string()], print).await?;
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
async fn read_and_run(context: &Watched, print: &mut PrintOptions) -> Result<()> {
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
                if run_interruptibly(context, print, &line).await == Next::Leave {
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

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Read,
    Leave,
}

/// Runs a line, until Ctrl-C. What is dropped then cancels its work on the device.
async fn run_interruptibly(context: &Watched, print: &mut PrintOptions, line: &str) -> Next {
    tokio::select! {
        next = run_line(context, print, line) => next,
        _ = tokio::signal::ctrl_c() => {
            context.progress.clear();
            println!("^C");
            Next::Read
        }
    }
}

async fn run_line(context: &Watched, print: &mut PrintOptions, line: &str) -> Next {
    let outcome = match line.strip_prefix('\\') {
        None => exec_from_commands(context, vec![line.to_string()], print).await,
        Some(command) => {
            let words = command.split_whitespace().collect::<Vec<_>>().join(" ");
            match words.parse::<Command>() {
                Ok(Command::Quit) => return Next::Leave,
                Ok(Command::OutputFormat(Some(format))) => match format.parse::<OutputFormat>() {
                    Ok(format) => format.execute(print),
                    Err(()) => Err(no_command(line)),
                },
                Ok(Command::OutputFormat(None)) => {
                    println!("Output format is {:?}.", print.format);
                    Ok(())
                }
                Ok(command) => command.execute(context, print).await,
                Err(()) => Err(no_command(line)),
            }
        }
    };
    if let Err(error) = outcome {
        context.progress.clear();
        eprintln!("{error}");
    }
    Next::Read
}

fn no_command(line: &str) -> DataFusionError {
    DataFusionError::Plan(format!("{line} is no command: \\? lists them"))
}
