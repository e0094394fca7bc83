#!/usr/bin/env python3
"""Time against size of one case of a bench, with its rivals, as an SVG.

    pip install matplotlib
    python3 benches/rivals/plot.py employees --out docs/benchmarks/two-inequalities.svg target/bench/theta.csv target/bench/rivals_theta.csv

A file may be given a label for its engines, as in `H100:theta.csv`. Cells that were not measured are left out.
"""

import argparse
import collections
import csv

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402

UNITS = {"K": 1e3, "M": 1e6}


def rows_of(size):
    longer = max(size.split("x"), key=rows_alone)
    return rows_alone(longer)


def rows_alone(text):
    unit = UNITS.get(text[-1])
    return float(text[:-1]) * unit if unit else float(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    lines = collections.defaultdict(dict)
    for file in options.files:
        label, _, path = file.rpartition(":")
        for row in csv.DictReader(open(path, newline="", encoding="utf-8")):
            if row["case"] == options.case and row["ms"] and row.get("status", "measured") in ("measured", ""):
                engine = f"{row['engine']}, {label}" if label else row["engine"]
                lines[engine][rows_of(row["size"])] = float(row["ms"])
    figure, axes = plt.subplots(figsize=(7, 4.2))
    for engine, points in sorted(lines.items()):
        sizes = sorted(points)
        axes.plot(sizes, [points[size] for size in sizes], marker="o", label=engine)
    axes.set(xscale="log", yscale="log", xlabel="rows of each side", ylabel="ms", title=options.title or options.case)
    axes.grid(True, which="major", alpha=0.4)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
