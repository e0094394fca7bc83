//! The tables of TPC-H that upstream's `tpch.slt` reads, as its generator writes them: rows that end with the delimiter.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;
use std::sync::OnceLock;

use tempfile::TempDir;
use tpchgen::generators::*;

/// That of the answers in upstream's files.
const SCALE: f64 = 0.1;

/// The folder with the tables, made when it is first asked for.
pub(super) fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        write_tables(folder.path()).unwrap();
        folder
    });
    folder.path()
}

fn write_tables(folder: &Path) -> Result<()> {
    let table = |name: &str| folder.join(format!("{name}.tbl"));
    write(&table("region"), RegionGenerator::new(SCALE, 1, 1).iter())?;
    write(&table("nation"), NationGenerator::new(SCALE, 1, 1).iter())?;
    write(
        &table("supplier"),
        SupplierGenerator::new(SCALE, 1, 1).iter(),
    )?;
    write(
        &table("customer"),
        CustomerGenerator::new(SCALE, 1, 1).iter(),
    )?;
    write(&table("part"), PartGenerator::new(SCALE, 1, 1).iter())?;
    write(
        &table("partsupp"),
        PartSuppGenerator::new(SCALE, 1, 1).iter(),
    )?;
    write(&table("orders"), OrderGenerator::new(SCALE, 1, 1).iter())?;
    write(
        &table("lineitem"),
        LineItemGenerator::new(SCALE, 1, 1).iter(),
    )
}

fn write(path: &Path, rows: impl Iterator<Item = impl Display>) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for row in rows {
        writeln!(file, "{row}")?;
    }
    file.flush()
}
