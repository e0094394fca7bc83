"""Sample profiles in the page of src/report/page, for its tests and to look at.

    python tests/page/sample.py --out DIR                 writes one page per sample
    python tests/page/sample.py --out DIR --screenshots   also PNGs: light, dark, a selected operator, 800 px wide, print

Screenshots need Playwright for Python and a Chromium in PATH; those of the print need pdftoppm, too. Every sample is made by a fixed seed.
"""

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path

from sample_gpu import Q5, gpu
from sample_parts import CARD, GB, KB, MB, Recorder, node, profile

FOLDER = Path(__file__).resolve().parents[2] / "src" / "report" / "page"
MARK = "PROFILE_JSON"


def template():
    """The page without a profile, joined of its parts as the crate does."""
    part = re.compile(r"/\* part: ([\w.]+) \*/\n")
    page = (FOLDER / "profile.html").read_text(encoding="utf-8")
    return part.sub(lambda found: (FOLDER / found[1]).read_text(encoding="utf-8"), page)


def page(profile):
    """The page with a profile in it, as the crate writes it."""
    without = template()
    assert without.count(MARK) == 1
    return without.replace(
        MARK, json.dumps(profile, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    )


def host():
    """A range join on the CPU backend."""
    nodes = [
        node(
            0,
            None,
            "BowtieDownloadExec",
            "device=host",
            "host",
            decision="transfer",
            size=(1, 1, 8, 1),
            compute_ms=0.004,
            reason="the rows leave the CPU backend here; nothing is copied",
        ),
        node(
            1,
            0,
            "BowtieJoinAggregateExec",
            "device=host, join_type=Inner, strategy=range, build=right, theta=[left.lo <= right.x, left.hi >= right.x], aggr=[count(*)]",
            "host",
            strategy="range",
            replaces="AggregateExec + NestedLoopJoinExec",
            size=(1, 1, 8, 1),
            compute_ms=103.2,
            device_ms=98.4,
            peak_device_bytes=61 * MB,
            reason="the right side is sorted by one column, in which all inequalities are ranges",
            metrics=[
                ["output_rows", "1"],
                ["elapsed_compute", "103.2ms"],
                ["candidate_pairs", "0"],
                ["prepare_time", "71.8ms"],
                ["output_time", "29.9ms"],
            ],
        ),
        node(
            2,
            1,
            "BowtieUploadExec",
            "device=host",
            "host",
            decision="transfer",
            size=(1_000_000, 1_000_000, 16 * MB, 123),
            compute_ms=0.6,
            reason="the rows are shared with the CPU backend; nothing is copied",
        ),
        node(
            3,
            2,
            "DataSourceExec",
            "partitions=2, partition_sizes=[62, 61]",
            size=(1_000_000, 1_000_000, 16 * MB, 123),
            compute_ms=0.02,
        ),
        node(
            4,
            1,
            "BowtieUploadExec",
            "device=host",
            "host",
            decision="transfer",
            size=(1_000_000, 1_000_000, 8 * MB, 123),
            compute_ms=0.5,
            reason="the rows are shared with the CPU backend; nothing is copied",
        ),
        node(
            5,
            4,
            "DataSourceExec",
            "partitions=2, partition_sizes=[62, 61]",
            size=(1_000_000, 1_000_000, 8 * MB, 123),
            compute_ms=0.02,
        ),
    ]
    r = Recorder(2)
    for thread in range(2):
        at = r.span("kernels", "sort", 0.8 + thread * 0.1, 66 + 3 * thread, 1)
        for piece in range(20):
            at = r.span(
                "kernels", "range_search", at, r.random.uniform(1, 1.6), 1, detail=f"thread {thread}, piece {piece}"
            )
    r.span("host", "share columns", 0.1, 0.6, 2)
    r.span("host", "share columns", 0.2, 0.5, 4)
    return profile(
        "Band join on the CPU backend",
        "SELECT count(*) FROM r JOIN s ON s.x BETWEEN r.lo AND r.hi",
        nodes,
        device={"name": "host", "card": None, "memory_bytes": None, "budget_bytes": 12 * GB},
        execution_ms=105.3,
        rows=1,
        bytes=8,
        timeline=r.timeline(105.3, "host"),
        memory={
            "device": "host",
            "limit_bytes": 64 * MB,
            "samples": [[0.0, 0], [0.7, 24 * MB], [1.1, 40 * MB], [70.0, 61 * MB], [103.0, 24 * MB], [104.8, 0]],
        },
        summary={
            "text": "1 of 3 operators runs on the CPU backend: a range join fused with its aggregation.",
            "uploads": 2,
            "downloads": 1,
            "datafusion_ms": 7_800.0,
            "estimated_ms": None,
        },
    )


def declined():
    """A plan with nothing offloaded."""
    tiny = "it has only 25 × 5 pairs of rows: bowtie gains nothing up to 65536"
    nodes = [
        node(
            0,
            None,
            "SortPreservingMergeExec",
            "[n_name@0 ASC NULLS LAST]",
            size=(25, 25, 1_200, 1),
            compute_ms=0.02,
        ),
        node(
            1,
            0,
            "SortExec",
            "expr=[n_name@0 ASC NULLS LAST], preserve_partitioning=[true]",
            decision="declined",
            size=(25, 25, 1_200, 4),
            compute_ms=0.11,
            reason="its input is not on the device, and an upload only to sort gains nothing",
        ),
        node(
            2,
            1,
            "HashJoinExec",
            "mode=CollectLeft, join_type=Inner, on=[(r_regionkey@0, n_regionkey@1)]",
            decision="declined",
            size=(25, 25, 1_500, 4),
            compute_ms=0.2,
            reason=tiny,
        ),
        node(
            3,
            2,
            "DataSourceExec",
            "partitions=1, partition_sizes=[1]",
            size=(5, 5, 300, 1),
            compute_ms=0.003,
        ),
        node(
            4,
            2,
            "RepartitionExec",
            "partitioning=RoundRobinBatch(4), input_partitions=1",
            size=(25, 25, 900, 1),
            compute_ms=0.03,
        ),
        node(
            5,
            4,
            "DataSourceExec",
            "partitions=1, partition_sizes=[1]",
            size=(25, 25, 900, 1),
            compute_ms=0.004,
        ),
    ]
    return profile(
        "Nations and their regions",
        "SELECT n_name, r_name FROM nation JOIN region ON n_regionkey = r_regionkey ORDER BY 1",
        nodes,
        execution_ms=0.83,
        planning_ms=0.6,
        rows=25,
        bytes=1_200,
        summary={"text": "No operator was offloaded: DataFusion runs the whole query.", "datafusion_ms": None},
        notes=["Statistics are exact for every table of this query."],
    )


def large(nodes=150, spans=20_000):
    """A plan of many nodes, and as many spans as a profile keeps; the memory is near its limit."""
    r = Recorder(9)
    plan = [
        node(
            0,
            None,
            "BowtieDownloadExec",
            "device=cuda:0",
            "cuda:0",
            decision="transfer",
            size=(1_000, 1_000, 64 * KB, 1),
            compute_ms=1.1,
            received_bytes=64 * KB,
        )
    ]
    ends = [0]  # nodes on the way from the root to the last one
    for id in range(1, nodes):
        while len(ends) > 1 and r.random.random() < (0.75 if len(ends) > 14 else 0.32):
            ends.pop()
        on_card = r.random.random() < 0.7
        rows = int(10 ** r.random.uniform(1, 8))
        name = r.random.choice(
            ["BowtieJoinExec", "BowtieFilterExec", "BowtieAggregateExec", "BowtieScanExec", "BowtieProjectionExec"]
            if on_card
            else ["HashJoinExec", "FilterExec", "AggregateExec", "RepartitionExec", "CoalesceBatchesExec"]
        )
        plan.append(
            node(
                id,
                ends[-1],
                name,
                f"{'device=cuda:0, ' if on_card else ''}columns=[a{id}, b{id}, c{id}], predicate=a{id} > {rows} AND b{id} IS NOT NULL",
                "cuda:0" if on_card else "datafusion",
                decision="offloaded" if on_card else r.random.choice(["declined", "datafusion"]),
                strategy=r.random.choice(["hash", "direct", None]) if on_card else None,
                reason="its input is resident on cuda:0"
                if on_card
                else "estimated at 14 ms on the device with its transfers, at 9 ms in DataFusion",
                size=(rows, int(rows * 10 ** r.random.gauss(0, 0.7)) + 1, rows * 24, rows // 8192 + 1),
                compute_ms=r.random.lognormvariate(1, 1.2),
                device_ms=r.random.lognormvariate(0.5, 1) if on_card else None,
                sent_bytes=rows * 12 if on_card and r.random.random() < 0.2 else None,
                resident_bytes=rows * 8 if name == "BowtieScanExec" else None,
                spilled_bytes=rows * 4 if on_card and r.random.random() < 0.04 else None,
            )
        )
        ends.append(id)
    cards = [n["id"] for n in plan if n["runs_on"] == "cuda:0"]
    kernels = [
        "hash_build",
        "hash_probe",
        "scan_counts",
        "gather",
        "radix_histogram",
        "radix_partition",
        "filter_mask",
        "compact",
        "accumulate_shared",
        "accumulate_global",
        "merge_groups",
        "sort_keys",
    ]
    clock = {"kernels": 0.0, "to_device": 0.0, "to_host": 3.0, "host": 0.0, "wait": 1.0}
    for at in range(spans):
        lane = r.random.choices(list(clock), [11, 5, 1, 2, 1])[0]
        current = cards[min(len(cards) - 1, at * len(cards) // spans)]
        size = int(r.random.lognormvariate(14, 1)) if lane.startswith("to_") else None
        ms = size / (25 * GB / 1000) if size else r.random.lognormvariate(-3.2, 0.9)
        name = {
            "kernels": r.random.choice(kernels),
            "host": r.random.choice(["submit", "stage", "decode"]),
            "wait": "synchronize",
        }.get(lane, "copy")
        # Two streams of kernels: half of them start before the last one ended.
        start = max(0.0, clock[lane] - (ms * 0.7 if lane == "kernels" and at % 2 else 0))
        clock[lane] = max(clock[lane], r.span(lane, name, start, ms, current, size)) + r.random.expovariate(
            1 / {"kernels": 0.02, "to_device": 0.15, "to_host": 0.9, "host": 0.4, "wait": 0.9}[lane]
        )
        if at % 10 == 0:
            r.samples.append(
                [
                    round(clock["kernels"], 5),
                    min(72 * GB, max(0, r.samples[-1][1] + int(r.random.gauss(0.05, 1.6) * GB))),
                ]
            )
    duration = round(max(clock.values()), 3)
    # Without the members of spans that say nothing: with them, as many spans are more than 2 MB. The page reads both.
    r.spans = [{name: value for name, value in span.items() if value not in (None, "")} for span in r.spans]
    return profile(
        "A large plan",
        "SELECT 1",
        plan,
        device=CARD,
        execution_ms=duration,
        planning_ms=48.0,
        rows=1_000,
        bytes=64 * KB,
        timeline=r.timeline(duration, dropped=4_312),
        memory={"device": "cuda:0", "limit_bytes": 72 * GB, "samples": r.samples},
        summary={
            "text": f"{len(cards)} of {nodes} operators run on cuda:0.",
            "uploads": 21,
            "upload_bytes": 9 * GB,
            "downloads": 1,
            "download_bytes": 64 * KB,
            "estimated_ms": duration * 0.9,
            "datafusion_ms": duration * 7,
        },
    )


def hostile():
    """HTML and names of JavaScript in every string. Nothing of it may become an element or run."""
    attacks = [
        "<script>window.attacked = 1</script>",
        "<img src=x onerror='window.attacked = 2'>",
        "</script><svg onload=window.attacked=3>",
        '"><b id=injected>bold</b>',
        "__proto__",
        "<!--",
        "javascript:window.attacked=4",
        "&lt;i&gt;\u2028",
    ]
    given = profile(
        "title",
        Q5,
        [node(0, None, "A", "d", "cuda:0"), node(1, 0, "B", "d", "host"), node(2, 0, "C", "d", decision="declined")],
        device=dict(CARD),
    )
    r = Recorder(1)
    r.span("kernels", "k", 0.1, 1.0, 1, 10, "d")
    r.span("lane", "k", 0.2, 2.0, 0, None, "d")
    given.update(
        timeline=r.timeline(4.0),
        memory={"device": "cuda:0", "limit_bytes": 100, "samples": [[0, 10], [1, 90]]},
        notes=["n", "n"],
    )
    for n in given["nodes"]:
        n.update(reason="r", replaces="r", strategy="s", metrics=[["m", "v"]])
    place = iter(range(1 << 20))

    def attack(value, key=None):
        if key in ("created", "lane", "id"):
            # Lanes keep their references, and one lane has the name of a member that every object has.
            return "__proto__" if value == "lane" else value
        if isinstance(value, str):
            return (
                value + attacks[next(place) % len(attacks)] if key != "runs_on" or value.startswith("cuda") else value
            )
        if isinstance(value, list):
            return [attack(item) for item in value]
        if isinstance(value, dict):
            return {name: attack(item, name) for name, item in value.items()}
        return value

    return attack(given)


def empty():
    """Every part that may be null or empty is."""
    given = profile("", None, [], options=[], planning_ms=None, execution_ms=None, rows=None, bytes=None, created=None)
    given["summary"] = {name: None for name in given["summary"]}
    return given


SAMPLES = {"gpu": gpu, "host": host, "declined": declined, "large": large, "hostile": hostile, "empty": empty}


def screenshots(out):
    from playwright.sync_api import sync_playwright

    def shoot(tab, name, **more):
        tab.wait_for_timeout(150)
        tab.screenshot(path=out / f"{name}.png", **more)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in SAMPLES:
            address = (out / f"{name}.html").as_uri()
            for scheme in ("light", "dark"):
                tab = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
                tab.goto(address)
                shoot(tab, f"{name}-{scheme}", full_page=True)
                if name in ("gpu", "large"):
                    tab.locator("#node-9").click()
                    shoot(tab, f"{name}-{scheme}-selected", full_page=True)
                tab.close()
            tab = browser.new_page(viewport={"width": 800, "height": 1000})
            tab.goto(address)
            shoot(tab, f"{name}-800", full_page=True)
            tab.pdf(path=out / f"{name}.pdf", prefer_css_page_size=True, print_background=True)
            tab.close()
            if shutil.which("pdftoppm"):
                subprocess.run(["pdftoppm", "-r", "80", "-png", out / f"{name}.pdf", out / f"{name}-print"], check=True)
        browser.close()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=Path, required=True, help="folder of the pages")
    arguments.add_argument("--screenshots", action="store_true", help="also write PNGs and PDFs")
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, make in SAMPLES.items():
        (given.out / f"{name}.html").write_text(page(make()), encoding="utf-8")
    if given.screenshots:
        screenshots(given.out)


if __name__ == "__main__":
    main()
