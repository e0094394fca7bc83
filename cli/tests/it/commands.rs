//! Statements, files, options and commands, without a terminal.

use crate::support::{Home, device, serve};

/// Events and the prices that were valid when.
fn with_prices() -> Home {
    let home = Home::new();
    home.file("events.csv", "sku,ts\na,5\na,15\nb,7\nb,99\n");
    home.file(
        "prices.csv",
        "sku,price,valid_from,valid_to\na,1,0,10\na,2,10,20\nb,3,0,50\n",
    );
    home
}

const PRICED: &str = "SELECT e.sku, e.ts, p.price FROM 'events.csv' e JOIN 'prices.csv' p
                      ON e.sku = p.sku AND e.ts >= p.valid_from AND e.ts < p.valid_to ORDER BY 1, 2";

#[test]
fn files_are_named_in_from() {
    let home = with_prices();
    for offload in ["off", "auto", "force"] {
        let rows = home.printed(&[
            "-q",
            "--format",
            "csv",
            "--device",
            &device(),
            "--offload",
            offload,
            "-c",
            PRICED,
        ]);
        assert_eq!(rows, "sku,ts,price\na,5,1\na,15,2\nb,7,3\n", "{offload}");
    }
}

/// Object stores and web servers, all of which are one on this machine.
#[test]
fn files_are_named_by_urls() {
    let rows = "sku,ts\na,5\nb,7\n";
    let (server, paths) = serve(rows);
    let home = Home::new();
    for (url, path) in [
        ("s3://bucket/events.csv".to_string(), "/bucket/events.csv"),
        ("gs://box/events.csv".into(), "/box/events%2Ecsv"),
        (format!("{server}/events.csv"), "/events.csv"),
    ] {
        let sql = format!("SELECT sku, ts FROM '{url}' ORDER BY ts");
        let mut command = home.command(&["-q", "--format", "csv", "-c", &sql]);
        command.envs([
            ("AWS_ENDPOINT_URL", server.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("GOOGLE_BASE_URL", server.as_str()),
            ("GOOGLE_ALLOW_HTTP", "true"),
            ("GOOGLE_SKIP_SIGNATURE", "true"),
            ("NO_PROXY", "127.0.0.1"),
            ("no_proxy", "127.0.0.1"),
        ]);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{url}: {error}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), rows, "{url}");
        let asked: Vec<String> = paths.try_iter().collect();
        assert!(
            !asked.is_empty() && asked.iter().all(|asked| asked == path),
            "{url}: {asked:?}"
        );
    }
}

#[test]
fn statements_come_from_files_and_from_standard_input() {
    let home = with_prices();
    let script = home.file("q.sql", &format!("SELECT 1 AS one;\n{PRICED};\n"));
    let rows = home.printed(&["-q", "--format", "csv", "-f", &script]);
    assert_eq!(rows, "one\n1\nsku,ts,price\na,5,1\na,15,2\nb,7,3\n");
    let piped = home.piped(
        &["-q", "--format", "csv"],
        &format!("SELECT 1 AS one;\n{PRICED};\n"),
    );
    assert_eq!(piped, (Some(0), rows, String::new()));
    // The first statement that fails ends it.
    let failing = home.file(
        "failing.sql",
        "SELECT 1 AS one;\nSELECT nothing;\nSELECT 2 AS two;\n",
    );
    let output = home.run(&["-q", "--format", "csv", "-f", &failing]);
    assert!(!output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one\n1\n");
    let missing = home.refused(&["-f", "none.sql"]);
    assert!(missing.contains("cannot read none.sql"), "{missing}");
}

#[test]
fn standard_input_runs_statement_by_statement() {
    let home = Home::new();
    let csv = |text: &str| home.piped(&["-q", "--format", "csv"], text);
    // Several in a line, a `;` in quotes, and one at the end without a `;`.
    let (code, rows, error) = csv("select 1 as one; select ';' as two;\nselect 3 as three\n");
    assert_eq!(rows, "one\n1\ntwo\n;\nthree\n3\n");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    // The first one that fails ends it, whether it cannot be read or cannot run.
    for (wrong, because) in [
        ("selekt", "selekt"),
        ("select 1/0", "Divide by zero"),
        ("\\nonsense", "\\nonsense is no command: \\? lists them"),
    ] {
        let text = format!("select 1 as one;\n{wrong};\nselect 2 as two;\n");
        let (code, rows, error) = csv(&text.replace("nonsense;", "nonsense"));
        assert_eq!((code, rows.as_str()), (Some(1), "one\n1\n"), "{error}");
        assert!(error.contains(because), "{error}");
    }
    // Commands stand on lines of their own.
    home.file("two.sql", "select 2 as two;\n\\q\nselect 4 as four;\n");
    let text = "\\pset format csv\n\\i two.sql\nselect 3 as three;\n\\q\nselect 5 as five;\n";
    let (code, rows, error) = home.piped(&["-q"], text);
    assert_eq!(
        (code, rows.as_str()),
        (Some(0), "Output format is Csv.\ntwo\n2\nthree\n3\n"),
        "{error}"
    );
    // No line of the shell's own is among the rows.
    let (code, rows, _) = home.piped(&["--format", "csv"], "");
    assert_eq!((code, rows.as_str()), (Some(0), ""));
}

#[test]
fn commands_stand_behind_files_and_statements() {
    let home = Home::new();
    let table = home.file("t.sql", "create table t as select 7 as seven;\n");
    for first in [
        ["-r", &table],
        ["-f", &table],
        ["-c", "create table t as select 7 as seven"],
    ] {
        let explain = [&first[..], &["explain", "select seven from t"]].concat();
        let text = home.printed(&explain);
        assert!(text.contains("DataSourceExec"), "{first:?}: {text}");
    }
    let rows = home.printed(&["-q", "--format", "csv", "-c", "select 1", "select 2"]);
    assert_eq!(rows, "Int64(1)\n1\nInt64(2)\n2\n");
}

/// Arguments that are refused, and why.
#[test]
fn wrong_arguments_are_refused() {
    let cases: [(&[&str], &str); 6] = [
        (
            &["explain", ""],
            "there is no query: give it as an argument, or - to read it",
        ),
        (
            &["explain", "CREATE TABLE t AS SELECT 1"],
            "only queries are explained and profiled: run other statements first, by --init",
        ),
        (
            &["-c", "select 1", "doctor"],
            "doctor and bench run no statements: leave -c and -f out",
        ),
        (
            &["--set", "offload"],
            "'offload' sets no option: use a name and a value, such as bowtie.offload=force",
        ),
        (
            &["--memory-limit", "10x"],
            "'10x' is no size: use a number with a unit, such as 512m or 10g",
        ),
        (
            &["--batch-size", "0", "-c", "select 1"],
            "--batch-size cannot be 0",
        ),
    ];
    let home = Home::new();
    for (arguments, expected) in cases {
        let error = home.refused(arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn options_are_reset() {
    let home = Home::new();
    let statements = "set bowtie.offload = 'force'; reset bowtie.offload; show bowtie.offload;";
    let rows = home.printed(&[
        "-q",
        "--format",
        "csv",
        "--offload",
        "off",
        "-c",
        statements,
    ]);
    assert_eq!(rows, "name,value\nbowtie.offload,auto\n");
    let error = home.refused(&["-c", "reset bowtie.ofload"]);
    assert!(
        error.contains("there is no option bowtie.ofload"),
        "{error}"
    );
}

#[test]
fn options_come_from_variables_arguments_and_statements() {
    let home = Home::new();
    let shown = |home: &Home, arguments: &[&str], variables: &[(&str, &str)]| {
        let mut all = vec!["-q", "--format", "csv"];
        all.extend(arguments);
        all.extend(["-c", "SHOW bowtie.offload"]);
        let mut command = home.command(&all);
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8(output.stdout).unwrap(), error)
    };
    let of = |value: &str| format!("name,value\nbowtie.offload,{value}\n");
    assert_eq!(shown(&home, &[], &[]).0, of("auto"));
    let variable = [("BOWTIE_OFFLOAD", "force")];
    assert_eq!(shown(&home, &[], &variable).0, of("force"));
    assert_eq!(shown(&home, &["--offload", "off"], &variable).0, of("off"));
    let set = ["--set", "bowtie.offload=force"];
    assert_eq!(shown(&home, &set, &[]).0, of("force"));
    // The name that an option had before.
    let (_, former) = shown(&home, &[], &[("BOWTIE_JOIN_STRATEGY", "quick")]);
    assert!(
        former.contains("bowtie.equi_join_strategy cannot be 'quick'"),
        "{former}"
    );
    let (_, wrong) = shown(&home, &[], &[("BOWTIE_OFFLOAD", "yes")]);
    assert!(wrong.contains("bowtie.offload cannot be 'yes'"), "{wrong}");
    let (_, wrong) = shown(&home, &["--set", "bowtie.ofload=off"], &[]);
    assert!(
        wrong.contains("there is no option bowtie.ofload"),
        "{wrong}"
    );
    let runtime = [
        "-q",
        "--set",
        "datafusion.runtime.memory_limit=1G",
        "-c",
        "SELECT 1",
    ];
    assert!(home.printed(&runtime).contains('1'));
    let wrong = home.refused(&["--device", "gpu", "-c", "SELECT 1"]);
    assert!(wrong.contains("use auto, host, cuda"), "{wrong}");
}

#[test]
fn a_failing_statement_fails_the_program() {
    let home = Home::new();
    let error = home.refused(&["-c", "SELECT nothing"]);
    assert!(error.contains("No field named nothing"), "{error}");
}

#[test]
fn doctor_tells_what_there_is() {
    let home = Home::new();
    let output = home.run(&["doctor"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("host: "), "{text}");
    assert!(
        text.contains("bowtie.device = 'auto' runs queries on "),
        "{text}"
    );
    match text.contains("cuda:0: ") {
        true => assert_eq!(output.status.code(), Some(0)),
        false => {
            assert_eq!(output.status.code(), Some(3));
            assert!(text.contains("why not"), "{text}");
            assert!(
                text.contains("Without a GPU, range, interval and set joins run"),
                "{text}"
            );
        }
    }
    assert_eq!(
        home.run(&["doctor", "--device", "host"]).status.code(),
        Some(0)
    );
    let none = home.run(&["doctor", "--device", "cuda:77"]);
    assert_eq!(none.status.code(), Some(1));
    let text = String::from_utf8(none.stdout).unwrap();
    assert!(
        text.contains("bowtie.device = 'cuda:77' cannot be used"),
        "{text}"
    );
}

#[test]
fn explain_shows_every_operator() {
    let home = with_prices();
    let text = home.printed(&["explain", PRICED, "--offload", "force", "--device", "host"]);
    let first = text.lines().next().unwrap();
    assert!(first.contains(" run on host"), "{text}");
    for node in ["BowtieJoinExec", "BowtieUploadExec", "DataSourceExec"] {
        assert!(text.contains(node), "{text}");
    }
    assert!(
        text.contains("in which all inequalities are ranges within equal keys"),
        "{text}"
    );
    // For a GPU, whether or not there is one.
    let text = home.printed(&["explain", PRICED, "--offload", "force", "--device", "cuda"]);
    assert!(text.contains("run on cuda:0"), "{text}");
    let init = home.file("init.sql", "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'events.csv' OPTIONS ('format.has_header' 'true');\n");
    let text = home.printed(&["explain", "SELECT count(*) FROM e", "--init", &init]);
    assert!(text.contains("DataSourceExec"), "{text}");
    let error = home.refused(&["explain", "SELEC"]);
    assert!(error.contains("SELEC"), "{error}");
}

#[test]
fn a_profile_is_one_page() {
    let home = with_prices();
    let device = device();
    let profile = [
        "profile",
        PRICED,
        "--offload",
        "force",
        "--device",
        &device,
        "--title",
        "Prices </script>",
        "--json",
        "p.json",
    ];
    let text = home.printed(&profile);
    assert!(
        text.contains("3 rows;") && text.contains("written to profile.html"),
        "{text}"
    );
    let page = std::fs::read_to_string(home.path().join("profile.html")).unwrap();
    assert!(page.contains("BowtieJoinExec") && page.len() < 2 << 20);
    assert!(
        !page.contains("Prices </script>"),
        "a text that ends the script"
    );
    assert!(!page.contains("PROFILE_JSON"));
    let json = std::fs::read_to_string(home.path().join("p.json")).unwrap();
    assert!(
        json.starts_with('{') && json.contains("\"rows\":3"),
        "{json}"
    );
    let error = home.refused(&["profile", PRICED, "--output", "no/such/folder.html"]);
    assert!(
        error.contains("cannot write no/such/folder.html"),
        "{error}"
    );
}

#[test]
fn bench_runs_both_ways() {
    let home = Home::new();
    let device = device();
    let bench = [
        "bench", "tpch", "--scale", "0.01", "--repeat", "1", "--data", "tpch", "--device", &device,
    ];
    let text = home.printed(&bench);
    let queries = text
        .lines()
        .filter(|line| line.starts_with('q') && line.contains('x'));
    assert_eq!(
        queries.filter(|line| !line.starts_with("query")).count(),
        22,
        "{text}"
    );
    assert!(
        text.contains("geometric mean") && !text.contains("DIFFER"),
        "{text}"
    );
    // It compares numbers of rows. The rows themselves, of its files:
    let file = |table: &str| format!("'tpch/tpch-0.01/{table}/001.parquet'");
    let sql = format!(
        "SELECT l_returnflag, count(*), sum(l_quantity), max(o_totalprice), min(l_comment)
         FROM {} JOIN {} ON l_orderkey = o_orderkey AND l_shipdate > o_orderdate GROUP BY 1 ORDER BY 1",
        file("lineitem"),
        file("orders")
    );
    let [off, on] = ["off", "force"]
        .map(|offload| home.printed(&["-q", "--format", "csv", "--offload", offload, "-c", &sql]));
    assert_eq!(off.lines().count(), 4, "{off}");
    assert_eq!(off, on);
    // The files are there, and are read into memory.
    let some = ["--in-memory", "--queries", "3", "q21"];
    let text = home.printed(&[&bench[..], &some].concat());
    assert!(
        text.contains("q03 ") && text.contains("q21 ") && !text.contains("q01 "),
        "{text}"
    );
    let error = home.refused(&[
        "bench",
        "tpch",
        "--scale",
        "0.01",
        "--data",
        "tpch",
        "--queries",
        "23",
    ]);
    assert!(error.contains("use numbers from 1 to 22"), "{error}");
    let error = home.refused(&["bench", "tpch", "--scale", "0"]);
    assert!(error.contains("--scale cannot be 0"), "{error}");
}
