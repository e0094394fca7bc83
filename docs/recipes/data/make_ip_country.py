#!/usr/bin/env python3
"""Makes ip_country.parquet, the ranges of IPv4 addresses of docs/recipes/ip-ranges.md.

    make_ip_country.py PACKAGE [OUTPUT]

PACKAGE is the unpacked npm package @ip-location-db/geo-whois-asn-country. Needs pyarrow.
"""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent


def read_ranges(path):
    """Rows of (first, last, country) in the order of first; both ends belong to the range."""
    names = ["first", "last", "country"]
    types = {"first": pa.int64(), "last": pa.int64(), "country": pa.string()}
    # NA is a country, not a missing value.
    table = pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )
    columns = [table[name].to_pylist() for name in names]
    return sorted(zip(*columns, strict=True), key=lambda row: row[0])


def merged(ranges):
    """Makes one of ranges that touch and have one country."""
    result = []
    for first, last, country in ranges:
        if result and result[-1][1] + 1 == first and result[-1][2] == country:
            result[-1] = (result[-1][0], last, country)
        else:
            result.append((first, last, country))
    return result


def overlapping(ranges):
    """How many ranges begin inside an earlier one."""
    count = 0
    reached = -1
    for first, last, _ in ranges:
        count += first <= reached
        reached = max(reached, last)
    return count


def main():
    package = Path(sys.argv[1])
    output = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "ip_country.parquet"
    ranges = merged(read_ranges(package / "geo-whois-asn-country-ipv4-num.csv"))
    first, last, country = zip(*ranges, strict=True)
    table = pa.table(
        {
            "first": pa.array(first, pa.int64()),
            "last": pa.array(last, pa.int64()),
            "country": pa.array(country, pa.string()),
        }
    )
    pq.write_table(
        table,
        output,
        compression="zstd",
        compression_level=19,
        use_dictionary=["country"],
        column_encoding={"first": "DELTA_BINARY_PACKED", "last": "DELTA_BINARY_PACKED"},
        write_statistics=True,
    )
    print(f"{output}: {len(ranges)} ranges, {overlapping(ranges)} of which begin inside an earlier one")


if __name__ == "__main__":
    main()
