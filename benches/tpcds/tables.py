#!/usr/bin/env python3
"""The tables of TPC-DS as Parquet files, for `cargo bench --bench tpcds`: made by the generator in DuckDB's extension.

    pip install duckdb==1.5.5 duckdb-extension-tpcds==1.5.5        # requirements of this script; the crate depends on neither
    python3 benches/tpcds/tables.py --scale 1 --out target/tpcds   # 0.3 GB at scale factor 1

Writes <out>/<table>/<table>.parquet for each table, and the scale factor to <out>/scale.
"""

import argparse
import pathlib


def extension():
    """The path of the extension that pip installed."""
    import duckdb_extension_tpcds

    folder = pathlib.Path(duckdb_extension_tpcds.__file__).parent
    [path] = folder.glob("extensions/*/tpcds.duckdb_extension")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()

    import duckdb

    # What an interrupted run leaves has no scale factor.
    (arguments.out / "scale").unlink(missing_ok=True)
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension()}'")
    connection.execute(f"CALL dsdgen(sf = {arguments.scale:g})")
    for (table,) in connection.execute("SHOW TABLES").fetchall():
        folder = arguments.out / table
        folder.mkdir(parents=True, exist_ok=True)
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
    (arguments.out / "scale").write_text(f"{arguments.scale:g}\n")


if __name__ == "__main__":
    main()
