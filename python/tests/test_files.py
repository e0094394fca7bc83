"""Files by path and URL."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import datafusion_bowtie as bt

ROWS = [(1, "x"), (2, "y"), (3, "z")]
FRAME = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})


def rows(con: bt.Connection, name: str = "t") -> list[tuple[object, ...]]:
    return con.sql(f"SELECT a, b FROM {name} ORDER BY a").fetchall()


def write(directory: Path) -> None:
    FRAME.write_parquet(directory / "f.parquet")
    FRAME.write_csv(directory / "f.csv")
    FRAME.write_csv(directory / "f.tsv", separator="\t")
    FRAME.write_ndjson(directory / "f.json")
    FRAME.write_ndjson(directory / "f.jsonl")
    FRAME.write_avro(directory / "f.avro")
    FRAME.write_ipc(directory / "f.arrow", compat_level=pl.CompatLevel.oldest())
    for name in ["f.csv", "f.json"]:
        (directory / f"{name}.gz").write_bytes(gzip.compress((directory / name).read_bytes()))


NAMES = ["f.parquet", "f.csv", "f.tsv", "f.json", "f.jsonl", "f.avro", "f.arrow", "f.csv.gz", "f.json.gz"]


@pytest.mark.parametrize("name", NAMES)
def test_formats(con: bt.Connection, tmp_path: Path, name: str) -> None:
    write(tmp_path)
    con.register("t", tmp_path / name)
    assert rows(con) == ROWS
    # By name, relative to the working directory, and by URL.
    assert rows(con, f"'{name}'") == ROWS
    assert rows(con, f"'{(tmp_path / name).as_uri()}'") == ROWS
    con.register("u", (tmp_path / name).as_uri())
    assert rows(con, "u") == ROWS


def test_readers(con: bt.Connection, tmp_path: Path) -> None:
    write(tmp_path)
    assert con.read_parquet("f.parquet").count() == 3
    assert con.read_json("f.json").count() == 3
    assert con.read_csv("f.csv").count() == 3
    assert con.read_csv("f.csv", has_header=False).count() == 4
    (tmp_path / "odd.txt").write_text("# no rows\n1;'it;s'\n2;\n")
    odd = con.read_csv("odd.txt", has_header=False, delimiter=";", quote="'", comment="#")
    assert odd.fetchall() == [(1, "it;s"), (2, None)]
    (tmp_path / "array.json").write_text('[{"a": 1}, {"a": 2}]')
    assert con.read_json("array.json", newline_delimited=False).count() == 2


def test_a_schema_that_is_given(con: bt.Connection, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a,b\n1,2\n")
    schema = pa.schema([("a", pa.string()), ("b", pa.float32())])
    assert con.read_csv("f.csv", schema=schema).fetchall() == [("1", 2.0)]
    con.register("t", "f.csv", schema=schema)
    assert con.table("t").dtypes == ["Utf8", "Float32"]


def test_several_files(con: bt.Connection, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    FRAME[:2].write_parquet(parts / "1.parquet")
    FRAME[2:].write_parquet(parts / "2.parquet")
    (parts / "_SUCCESS").touch()
    sources: list[str | Path | list[Path]] = [
        parts,
        f"{parts}/",
        f"{parts}/*.parquet",
        f"{parts.as_uri()}/*.parquet",
        [parts / "1.parquet", parts / "2.parquet"],
    ]
    for source in sources:
        con.register("t", source)
        assert rows(con) == ROWS
    # A file that comes later is there at once.
    FRAME.with_columns(pl.col("a") + 10).write_parquet(parts / "3.parquet")
    con.register("t", parts)
    assert con.table("t").count() == 6
    (parts / "3.parquet").unlink()
    assert con.table("t").count() == 3


def test_partitions(con: bt.Connection, tmp_path: Path) -> None:
    frame = con.sql("SELECT value AS a, value % 2 AS part FROM range(0, 10)")
    assert frame.write_parquet("parts/", partition_by=["part"]) == 10
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["part=0", "part=1"]
    con.register("t", "parts/")
    assert con.sql("SELECT part, count(*) FROM t GROUP BY part ORDER BY part").fetchall() == [("0", 5), ("1", 5)]


def test_formats_that_cannot_be_told(con: bt.Connection, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_text("a,b\n1,2\n")
    with pytest.raises(bt.PlanError, match=r"give it, such as format='csv'"):
        con.register("t", "data.bin")
    con.register("t", "data.bin", format="CSV")
    assert con.table("t").fetchall() == [(1, 2)]
    with pytest.raises(bt.PlanError, match="there is no format 'orc'"):
        con.register("t", "data.bin", format="orc")
    with pytest.raises(bt.Error, match="color"):
        con.register("t", "data.bin", format="csv", color="red")
    with pytest.raises(bt.PlanError, match="files of the format avro have no option 'color'"):
        con.register("t", "data.bin", format="avro", color="red")
    with pytest.raises(bt.PlanError, match="no path was given"):
        con.register("t", [])


def test_written_files(con: bt.Connection, tmp_path: Path) -> None:
    frame = con.from_arrow(FRAME)
    assert frame.write_parquet("out.parquet", compression="zstd(3)") == 3
    assert pl.read_parquet(tmp_path / "out.parquet").equals(FRAME)
    assert frame.write_csv(tmp_path / "out.csv", has_header=False, delimiter=";") == 3
    assert (tmp_path / "out.csv").read_text() == "1;x\n2;y\n3;z\n"
    assert frame.write_json("out.json") == 3
    assert pl.read_ndjson(tmp_path / "out.json").equals(FRAME)
    assert frame.write_csv("many", single_file=False) == 3
    assert con.read_csv("many/").count() == 3
    with pytest.raises(bt.Error, match="color"):
        frame.write_parquet("x.parquet", color="red")


def test_home(con: bt.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    FRAME.write_parquet(tmp_path / "f.parquet")
    assert con.read_parquet("~/f.parquet").count() == 3


class Ranges(http.server.SimpleHTTPRequestHandler):
    """A server of files that answers requests for parts of them, as object stores do."""

    def answer(self, with_body: bool) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        body = path.read_bytes()
        asked = self.headers.get("Range")
        if asked is None:
            self.send_response(200)
            part = body
        else:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = (int(first), int(last or len(body) - 1)) if first else (len(body) - int(last), len(body) - 1)
            part = body[start : end + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", f'"{len(body)}"')
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        if with_body:
            self.wfile.write(part)

    def do_GET(self) -> None:
        self.answer(True)

    def do_HEAD(self) -> None:
        self.answer(False)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    write(tmp_path)

    def handler(*args: object) -> Ranges:
        return Ranges(*args, directory=str(tmp_path))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["f.parquet", "f.csv", "f.json.gz"])
def test_web_servers(con: bt.Connection, server: str, name: str) -> None:
    con.register("t", f"{server}/{name}")
    assert rows(con) == ROWS
    assert rows(con, f"'{server}/{name}'") == ROWS


def test_files_that_a_server_lacks(con: bt.Connection, server: str) -> None:
    with pytest.raises(bt.FileError, match="there is no file at http"):
        con.register("t", f"{server}/missing.parquet")
    with pytest.raises(bt.NotSupportedError, match="name each file"):
        con.register("t", f"{server}/*.parquet")
    with pytest.raises(bt.NotSupportedError, match="with a query"):
        con.register("t", f"{server}/f.parquet?x=y")


def test_stores_of_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    """A store that speaks S3 is one that serves `/bucket/key` with ranges: the credentials come from the environment or the connection."""
    (tmp_path / "bucket").mkdir()
    FRAME.write_parquet(tmp_path / "bucket" / "f.parquet")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    con = bt.connect(device="host", storage_options={"aws_access_key_id": "key", "aws_secret_access_key": "secret"})
    assert rows(con, "'s3://bucket/f.parquet'") == ROWS
    con.register("t", "s3://bucket/f.parquet")
    assert rows(con) == ROWS


@pytest.mark.parametrize("url", ["gs://bucket/f.parquet", "az://bucket/f.parquet", "abfss://bucket@account.dfs.core.windows.net/f.parquet"])
def test_stores_of_other_clouds(tmp_path: Path, server: str, url: str) -> None:
    """Google Cloud and Azure have an object at `/bucket/key`, too."""
    (tmp_path / "bucket").mkdir()
    FRAME.write_parquet(tmp_path / "bucket" / "f.parquet")
    options = {
        "allow_http": "true",
        "google_base_url": server,
        "google_skip_signature": "true",
        "azure_endpoint": server,
        "azure_skip_signature": "true",
        "azure_storage_account_name": "account",
    }
    con = bt.connect(device="host", storage_options=options)
    assert rows(con, f"'{url}'") == ROWS
