#!/usr/bin/env -S python3 -B
"""Writes docs/assets/how-*.svg, the book's pictures of how things work; with --check fails when they are not up to date.

Each picture is a function below that draws on a `Picture` of scripts/picture_canvas.py. Change it where the code changes that it shows, run
this script, and look at the file on a light and on a dark page.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from picture_canvas import Picture, UnreadableError

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"


def range_join() -> Picture:
    """src/ops/build_index.rs, src/ops/probe.rs, src/device/host/theta/range.rs, kernels/theta/range.cu."""
    picture = Picture(
        "A range join: sort one side, look the other one up in it",
        "The events are sorted by sku and time. For a price two binary searches inside the events of its sku find where the matches "
        "begin and end. All events between the two positions match.",
        384,
    )
    first, second = [5, 9, 14, 20, 27, 38, 45, 52, 58, 66, 71, 80, 93], [8, 10, 19, 24, 33, 61, 77]
    left, cell = 24, 33.6
    begin, end = 3, 6

    picture.step(left + 10, 60, 1)
    picture.text(52, 65, "The build side, events, is sorted by sku and ts.")
    middle, right = left + cell * len(first), left + cell * (len(first) + len(second))
    for name, low, high in [("sku A", left, middle), ("sku B", middle, right)]:
        picture.text((low + high) / 2, 92, name, anchor="middle", faint=True)
        picture.span(low + 3, high - 3, 97)
    picture.cells(left, 106, cell, 30, first + second, range(begin, end))
    for position in range(len(first) + len(second)):
        picture.text(left + cell * (position + 0.5), 152, str(position), size=12, anchor="middle", faint=True)

    # A search begins at the middle of its column.
    low, high = left + cell * begin, left + cell * end
    middle = (low + high) / 2
    columns = [
        ("sku", left, 2 * low - middle, "A"),
        ("valid_from", 2 * low - middle, middle, "20"),
        ("valid_to", middle, 2 * high - middle, "45"),
    ]
    for name, start, stop, value in columns:
        picture.box(start, 202, stop - start, 28, "plain", value, radius=0)
        picture.text((start + stop) / 2, 245, name, size=12, anchor="middle", faint=True)
    picture.text(left, 264, "a row of the probe side, prices", size=12, faint=True)
    picture.arrow((low, 202), (low, 138), kind="mark")
    picture.arrow((high, 202), (high, 138), kind="mark")

    picture.step(310, 186, 2)
    picture.text(328, 191, "Each price searches the events of its sku twice.")
    picture.text(328, 214, "begin = 3: the first ts not below valid_from")
    picture.text(328, 234, "end = 6: the first ts not below valid_to")
    picture.text(328, 257, "The matches are positions 3, 4 and 5.", bold=True)

    picture.step(left + 10, 290, 3)
    picture.text(52, 295, "The range is all that later steps need.")
    uses = [
        ("Counts and aggregates", "end − begin, or a fold of", "the range: no match is listed"),
        ("Output rows", "each position is an event", "that matches the price"),
        ("The next price", "prices are sorted, too: its", "range is near this one"),
    ]
    for number, lines in enumerate(uses):
        picture.box(24 + number * 227, 308, 218, 62, "mark" if number < 2 else "plain", *lines, size=12)
    return picture


def overlaps() -> Picture:
    """src/spec/interval.rs (passes), src/device/primitives/intervals.rs (counts)."""
    picture = Picture(
        "Overlapping intervals: a.start < b.stop and b.start < a.stop",
        "A row b with the interval 7 to 11 and five rows of a. One overlapping row of a begins inside b, and is found by the first "
        "pass. In two others b begins inside the row of a: the second pass finds them. For counts, two searches suffice: four rows of "
        "a begin before 11, one of these has ended by 7, so three overlap.",
        528,
    )

    def at(time: int) -> int:
        return 62 + 22 * time

    rows = [
        ("a1", 1, 3, "ends before b begins"),
        ("a2", 4, 8, "b begins inside a: pass 2"),
        ("a3", 6, 10, "b begins inside a: pass 2"),
        ("a4", 9, 12, "a begins inside b: pass 1"),
        ("a5", 13, 16, "begins when b has ended"),
    ]
    picture.text(24, 64, "Rows by two range joins: of two intervals that overlap, one begins in the other", bold=True)
    for time in (7, 11):
        picture.line((at(time), 104), (at(time), 262), kind="mark", dashed=True)
    picture.text(52, 97, "b", bold=True, anchor="end")
    picture.box(at(7), 80, at(11) - at(7), 24, "mark", "7 to 11")
    for number, (name, start, stop, words) in enumerate(rows):
        y = 112 + 30 * number
        is_match = "pass" in words
        picture.text(52, y + 17, name, bold=True, anchor="end")
        picture.box(at(start), y, at(stop) - at(start), 24, "mark" if is_match else "plain")
        picture.text(at(start) + 6, y + 17, str(start))
        picture.text(at(stop) - 6, y + 17, str(stop), anchor="end")
        picture.text(444, y + 17, words, faint=not is_match)
    picture.text(24, 286, "Pass 1 sorts a by start. Each b finds the rows of a that begin with it or inside it.")
    picture.text(24, 306, "Pass 2 sorts b by start. Each a finds the rows of b that begin inside it, but not with it.")

    picture.line((24, 326), (696, 326))
    picture.text(24, 352, "Counts by two searches for each row of b: among the starts and the stops of a", bold=True)
    orders = [
        (370, "a.start", [1, 4, 6, 9, 13], 4, "4 rows begin before b.stop = 11"),
        (426, "a.stop", [3, 8, 10, 12, 16], 1, "1 row has ended by b.start = 7"),
    ]
    for y, name, values, found, words in orders:
        picture.text(86, y + 19, name, anchor="end")
        picture.cells(98, y, 40, 28, values, range(found))
        boundary = 98 + 40 * found
        picture.arrow((boundary, y + 48), (boundary, y + 30), kind="mark")
        picture.text(312, y + 19, words)
    picture.text(312, 484, "b overlaps 4 − 1 = 3 rows of a", bold=True)
    picture.text(24, 512, "Both need intervals that do not end before they begin. Each tile is checked for that.", faint=True)
    return picture


def dominance() -> Picture:
    """src/ops/build_index.rs, src/ops/compared.rs, src/device/host/theta/zone_map.rs, kernels/theta/zones_walk.cuh, choose_count.rs."""
    picture = Picture(
        "Dominance: r.a > s.a and r.b < s.b for one row of s",
        "The build side r is sorted by a, so a search finds one range of candidates. Zone maps hold the minimum and the maximum of b "
        "in each block. A block is skipped, taken whole, or looked into, down to leaves of 64 keys, which are compared at once.",
        496,
    )
    picture.step(34, 62, 1)
    picture.text(52, 67, "r is sorted by a, the more selective column. A search finds the rows with a > 30.")
    picture.box(24, 80, 168, 28, "plain", "r.a ≤ 30", radius=0)
    picture.box(192, 80, 504, 28, "mark", "r.a > 30: one range of positions", radius=0)

    picture.step(34, 134, 2)
    picture.text(52, 139, "Zone maps of b in that order: minimum and maximum of each block. Here s.b = 50.")
    blocks = [
        ("plain", "not in the range", ""),
        ("mark", "b is 5 to 38", "all match: taken whole"),
        ("plain", "b is 12 to 88", "some may: looked into"),
        ("plain", "b is 55 to 97", "none match: skipped"),
    ]
    for number, (kind, *lines) in enumerate(blocks):
        picture.box(24 + 168 * number, 150, 168, 46, kind, *[words for words in lines if words], size=12, bold=False, radius=0)
    picture.text(24, 214, "blocks of 512 keys", size=12, faint=True)

    picture.line((360, 196), (24, 236), dashed=True)
    picture.line((528, 196), (696, 236), dashed=True)
    leaves = [
        ("12 to 35", "whole"),
        ("20 to 48", "whole"),
        ("31 to 62", "compared"),
        ("44 to 71", "compared"),
        ("52 to 80", "skipped"),
        ("55 to 88", "skipped"),
        ("15 to 49", "whole"),
        ("60 to 85", "skipped"),
    ]
    for number, (zone, answer) in enumerate(leaves):
        kind = "mark" if answer == "whole" else "plain"
        picture.box(24 + 84 * number, 236, 84, 44, kind, zone, answer, size=12, bold=False, radius=0)
    picture.text(696, 298, "its 8 leaves of 64 keys", size=12, anchor="end", faint=True)

    picture.line((192, 280), (24, 322), dashed=True)
    picture.line((276, 280), (560, 322), dashed=True)
    keys = [31, 57, 44, 62, 39, 50, 48, 33, 58, 41, 60, 36]
    for number, key in enumerate(keys):
        picture.box(24 + 42 * number, 322, 42, 28, "mark" if key < 50 else "plain", str(key), radius=0)
    picture.box(24 + 42 * len(keys), 322, 32, 28, "plain", "…", radius=0)
    picture.text(578, 334, "its 64 keys, all", size=12, faint=True)
    picture.text(578, 350, "compared at once", size=12, faint=True)

    picture.step(34, 378, 3)
    picture.text(52, 383, "64 neighbouring rows of s go down the tree together; on a GPU the 32 of a warp.")
    picture.box(24, 400, 330, 78, "mark", "Where zones decide", "the work follows the number of matches,", "not the product of both sides")
    picture.box(
        366,
        400,
        330,
        78,
        "plain",
        "Where they do not, for counts",
        "a wavelet tree over the ranks of b counts",
        "the matches of a row in O(log n)",
    )
    return picture


def tiles() -> Picture:
    """src/exec/join/tiles/matrix.rs, tile.rs, cut.rs; src/exec/join/grace_join.rs."""
    picture = Picture(
        "The tiles of a join",
        "A matrix of three left chunks by three right chunks. The tiles are joined down the first column, up the second one, and down "
        "the third. A tile without room on the device is halved across its longer side. With equal keys only tiles of the same hash "
        "partition are joined.",
        436,
    )
    picture.legend(("cpu", "waits in the CPU's memory"), ("gpu", "on the device"))
    left, top, width, height = 104, 92, 92, 76
    for number in range(3):
        kind = "gpu" if number == 1 else "cpu"
        picture.box(left + width * number + 4, top - 34, width - 8, 28, kind, f"right {number + 1}")
        picture.box(left - 76, top + height * number + 19, 70, 38, kind, f"left {number + 1}")
    order = {(0, 0): 1, (1, 0): 2, (2, 0): 3, (2, 1): 4, (1, 1): 5, (0, 1): 6, (0, 2): 7, (1, 2): 8, (2, 2): 9}
    for (row, column), turn in order.items():
        x, y = left + width * column, top + height * row
        picture.box(x, y, width, height, "gpu" if turn == 5 else "plain", radius=0)
        picture.text(x + 14, y + height / 2 + 5, str(turn), bold=True)
    path = []
    for column in range(3):
        x = left + width * column + 56
        ends = [(x, top + 16), (x, top + 3 * height - 16)]
        path += ends if column % 2 == 0 else ends[::-1]
    picture.arrow(*path, kind="mark")
    picture.lines_of_text(
        24,
        348,
        "The left side is gathered, the right one streamed.",
        "Each right chunk meets all left chunks before the",
        "next one is read. At each turn of the walk the left",
        "chunk is still on the device.",
    )

    picture.text(416, 76, "A tile without room is halved", bold=True)
    picture.text(416, 96, "across its longer side, repeatedly:")
    picture.box(416, 116, 68, 44, "gpu", radius=2)
    picture.arrow((490, 138), (512, 138), kind="mark")
    picture.arrow((592, 138), (614, 138), kind="mark")
    for half in (0, 36):
        picture.box(518 + half, 116, 32, 44, "gpu", radius=2)
        for quarter in (0, 24):
            picture.box(620 + half, 116 + quarter, 32, 20, "gpu", radius=2)
    picture.lines_of_text(416, 184, "down to 64 × 64 rows. Output leaves", "in pieces, which are halved likewise.")

    picture.line((416, 222), (696, 222))
    picture.text(416, 248, "Long inputs with equal keys", bold=True)
    picture.lines_of_text(416, 268, "Both sides are hash-partitioned first.", "Only tiles of one partition are left:")
    for row in range(4):
        picture.text(466, 334 + 24 * row, f"left {row + 1}", size=12, anchor="end")
        picture.text(499 + 56 * row, 312, f"right {row + 1}", size=12, anchor="middle")
        for column in range(4):
            kind = "gpu" if row == column else "plain"
            picture.box(473 + 56 * column, 320 + 24 * row, 52, 20, kind, radius=2)
    return picture


def memory() -> Picture:
    """docs/internals/memory.md; src/device/budget.rs (reclaim), src/exec/memory/step.rs (order of the answers), spill.rs."""
    picture = Picture(
        "Two limits of memory, and what happens at each",
        "The CPU's memory is bounded by the session's memory pool and spills to temporary files. The device's memory is bounded by "
        "bowtie.device_memory: a refused reservation drops stored columns, moves rows to the CPU's memory, halves the work, or waits.",
        488,
    )
    sides = [
        (24, "cpu", "The CPU's memory", "limit: the session's memory pool"),
        (416, "gpu", "Device memory", "limit: bowtie.device_memory"),
    ]
    held = {
        "cpu": [
            ("chunks that wait for the device:", "left ones, prefetched right ones"),
            ("hash partitions of both sides",),
            ("groups with states, sorted runs",),
            ("rows that left the device",),
        ],
        "gpu": [
            ("columns, keys, sorted rows",),
            ("indexes, zone maps, ranges",),
            ("groups, output pieces",),
            ("stored columns of tables,", "which give way to all the others"),
        ],
    }
    for x, kind, *head in sides:
        picture.box(x, 54, 280, 222, "plain", *head, top=True)
        y = 104.0
        for lines in held[kind]:
            height = 10 + 18 * len(lines)
            picture.box(x + 12, y, 256, height, kind, *lines, size=12, bold=False)
            y += height + 10
    for y, words, points in [(120, "upload", 1), (180, "download", -1), (240, "eviction", -1)]:
        picture.text(360, y, words, anchor="middle")
        picture.arrow(*[(304, y + 10), (416, y + 10)][::points], kind="mark", dashed=words == "eviction")

    picture.arrow((110, 276), (110, 352), kind="mark")
    picture.lines_of_text(102, 310, "no room:", "spilled", anchor="end")
    picture.arrow((200, 352), (200, 276), kind="mark")
    picture.lines_of_text(208, 310, "read again", "at its turn")
    picture.box(24, 352, 280, 46, "plain", "Temporary files", "of the session's disk manager")
    picture.lines_of_text(24, 422, "A node that can spill keeps at most half", "of a limited pool.")

    picture.arrow((556, 276), (556, 306), kind="mark")
    picture.text(548, 296, "no room", anchor="end")
    answers = [
        "Stored columns are dropped, if unused.",
        "Rows move to the CPU's memory.",
        "The tile, chunk or piece is halved.",
        "The step is retried while no other runs.",
    ]
    for number, words in enumerate(answers):
        picture.step(366, 322 + 27 * number, number + 1)
        picture.text(384, 327 + 27 * number, words)
    picture.lines_of_text(356, 436, "If none of these helps, the query ends with", "an error that names the option to raise.")
    picture.text(24, 474, "On the CPU backend both limits bound the machine's memory, and inputs are not copied.", faint=True)
    return picture


def plan() -> Picture:
    """tests/it/plan/nodes.rs (an_aggregation_is_fused_with_its_join), src/plan/transfers.rs (scans)."""
    picture = Picture(
        "A plan before and after bowtie's rule",
        "On the left DataFusion's plan: a projection, two aggregations, a nested-loop join and two scans. On the right the "
        "aggregations and the join are one node on the GPU. The rows of a CSV file are uploaded to it, a Parquet file is scanned on "
        "the GPU, and the result is downloaded.",
        488,
    )
    picture.legend(("cpu", "CPU"), ("gpu", "GPU"), ("mark", "transfer"))
    picture.text(24, 60, "SELECT r.a, count(*), sum(s.b) FROM r JOIN s ON r.a > s.a GROUP BY r.a", faint=True)
    picture.text(169, 90, "DataFusion's plan", bold=True, anchor="middle")
    picture.text(541, 90, "The plan that runs", bold=True, anchor="middle")

    left = 64
    for y, name in [(102, "ProjectionExec"), (184, "AggregateExec: final"), (236, "AggregateExec: partial"), (288, "NestedLoopJoinExec")]:
        picture.box(left, y, 210, 32, "cpu", name)
    picture.box(24, 420, 138, 46, "cpu", "DataSourceExec", "r: a CSV file")
    picture.box(176, 420, 138, 46, "cpu", "DataSourceExec", "s: Parquet files")
    for low, high in [(184, 134), (236, 216), (288, 268)]:
        picture.arrow((169, low), (169, high))
    picture.arrow((93, 420), (93, 370), (139, 370), (139, 320))
    picture.arrow((245, 420), (245, 370), (199, 370), (199, 320))

    picture.line((282, 184), (292, 184), (292, 320), (282, 320), kind="mark")
    picture.arrow((292, 252), (424, 252), kind="mark")
    picture.text(358, 244, "one node", anchor="middle")

    picture.box(436, 102, 210, 32, "cpu", "ProjectionExec")
    picture.box(436, 148, 210, 32, "mark", "BowtieDownloadExec", bold=True)
    picture.box(426, 200, 230, 104, "gpu", "BowtieJoinAggregateExec", "device=cuda:0", "strategy=range", "no join rows are made")
    picture.box(386, 346, 148, 32, "mark", "BowtieUploadExec", bold=True)
    picture.box(386, 420, 148, 46, "cpu", "DataSourceExec", "r: a CSV file")
    picture.box(548, 346, 148, 46, "gpu", "BowtieScanExec", "s: Parquet files")
    picture.arrow((541, 148), (541, 134))
    picture.arrow((541, 200), (541, 180))
    picture.arrow((478, 346), (478, 304))
    picture.arrow((604, 346), (604, 304))
    picture.arrow((460, 420), (460, 378))
    picture.lines_of_text(548, 412, "its columns are sent", "once, and stay there", size=12, faint=True)
    picture.text(548, 452, "Rows go upwards.", size=12, faint=True)
    return picture


def workers() -> Picture:
    """distributed/src/commands/ (ports), docs/guide/security.md (who reaches whom), docs/guide/workers.md."""
    picture = Picture(
        "Two engines, and the ports that processes listen on",
        "datafusion-distributed: a coordinator sends stages to workers at ports 8080 and 8081 and reads their rows; workers stream "
        "rows to one another. Ballista: a client sends a query to a scheduler at port 50050, which sends tasks to executors at ports "
        "50052 and 50062; rows are read at ports 50051 and 50061. Each worker and each executor offloads to a GPU of its own.",
        520,
    )
    for x, name in [(24, "datafusion-distributed"), (372, "Ballista")]:
        picture.box(x, 52, 324, 360, "plain", name, top=True, bold=True)

    picture.box(88, 88, 196, 66, "cpu", "Coordinator", "your process; no port", "plans, runs the plan's head", size=12)
    for x, port, gpu in [(36, 8080, 0), (208, 8081, 1)]:
        picture.box(x, 262, 128, 138, "cpu", "Worker", f"port {port}", top=True, size=12)
        picture.box(x + 8, 308, 112, 42, "gpu", "offloads to", f"cuda:{gpu}", size=12, bold=False)
        picture.lines_of_text(x + 64, 370, "DataFusion runs", "the rest", size=12, anchor="middle")
    picture.arrow((112, 154), (76, 262), kind="mark")
    picture.arrow((260, 154), (296, 262), kind="mark")
    picture.arrow((124, 262), (156, 154))
    picture.arrow((248, 262), (216, 154))
    picture.text(84, 212, "stages", anchor="end")
    picture.text(186, 212, "rows", anchor="middle")
    picture.text(288, 212, "stages")
    picture.text(186, 318, "rows", anchor="middle")
    picture.arrow((164, 328), (208, 328), both=True)

    picture.box(384, 84, 300, 44, "cpu", "Client", "your process; no port", size=12)
    picture.box(448, 160, 172, 62, "cpu", "Scheduler", "port 50050; plans", "executors register here", size=12)
    picture.arrow((534, 128), (534, 160), kind="mark")
    picture.text(542, 150, "query")
    for x, port, gpu in [(384, 50051, 0), (556, 50061, 1)]:
        picture.box(x, 262, 128, 138, "cpu", "Executor", f"rows: port {port}", f"tasks: port {port + 1}", top=True, size=12)
        picture.box(x + 8, 324, 112, 42, "gpu", "offloads to", f"cuda:{gpu}", size=12, bold=False)
        picture.text(x + 64, 386, "rows in files", size=12, anchor="middle")
    picture.arrow((490, 222), (480, 262), kind="mark")
    picture.arrow((578, 222), (588, 262), kind="mark")
    picture.text(534, 247, "tasks", anchor="middle")
    picture.arrow((404, 262), (404, 128))
    picture.arrow((664, 262), (664, 128))
    picture.text(412, 150, "rows")
    picture.text(656, 150, "rows", anchor="end")
    picture.text(534, 330, "rows", anchor="middle")
    picture.arrow((512, 340), (556, 340), both=True)

    picture.box(
        24, 426, 672, 30, "plain", "Parquet files in an object store or a shared folder: all parts read them by the same path", size=12
    )
    picture.text(24, 482, "Orange arrows are plans, grey ones rows. Each worker and executor decides by its own")
    picture.text(24, 502, "devices what it offloads. The ports are those of the commands on this page.")
    return picture


def resident() -> Picture:
    """src/store/column_store.rs, upload.rs, shelf.rs; src/exec/scan/loader.rs; docs/reference/options.md (sizes)."""
    picture = Picture(
        "The life of a stored column on a GPU",
        "A scan reads the columns of a table that are missing, the CPU encodes them, and they are sent to the GPU, where they stay "
        "and are borrowed by queries. Without room there, codes are kept in host memory and sent for a query. Columns are dropped "
        "when room is needed or their table has changed.",
        500,
    )
    picture.legend(("cpu", "CPU"), ("gpu", "GPU"))
    picture.box(24, 60, 180, 66, "cpu", "Table", "Parquet files,", "or arrays in memory", size=12)
    picture.box(264, 60, 180, 66, "cpu", "Read", "the missing columns", "of a piece of the table", size=12)
    picture.box(504, 60, 180, 66, "cpu", "Encoded", "as offsets or dictionary", "numbers, where narrower", size=12)
    picture.arrow((204, 93), (264, 93), kind="mark")
    picture.arrow((444, 93), (504, 93), kind="mark")

    picture.box(
        504, 200, 180, 82, "gpu", "Stored on the GPU", "bowtie.cache: by default", "three quarters of", "bowtie.device_memory", size=12
    )
    picture.arrow((620, 126), (620, 200), kind="mark")
    picture.text(628, 166, "sent")

    picture.box(
        264, 200, 180, 82, "cpu", "Kept in host memory", "bowtie.host_cache: by", "default a quarter of", "the machine's memory", size=12
    )
    picture.arrow((540, 126), (540, 163), (354, 163), (354, 200), kind="mark")
    picture.lines_of_text(362, 141, "no room on the GPU, or", size=12)
    picture.lines_of_text(362, 157, "it has dropped others", size=12)
    picture.arrow((444, 234), (504, 234), kind="mark")
    picture.text(474, 226, "sent", anchor="middle")

    picture.box(504, 344, 180, 66, "gpu", "Used by queries", "not dropped until", "they are done", size=12)
    picture.arrow((580, 282), (580, 344), kind="mark", both=True)
    picture.text(590, 318, "borrowed")
    picture.arrow((374, 282), (374, 377), (504, 377), kind="mark")
    picture.lines_of_text(382, 340, "no room: sent", "for one query", size=12)

    picture.box(
        24,
        440,
        660,
        46,
        "plain",
        "Dropped",
        "for other columns or work, longest unused first; or when its table is gone or has changed",
        size=12,
    )
    picture.arrow((684, 241), (704, 241), (704, 463), (684, 463))
    picture.arrow((290, 282), (290, 440))
    picture.arrow((60, 440), (60, 126), dashed=True)
    picture.lines_of_text(70, 300, "The next scan reads again", "what is neither stored on", "the GPU nor kept in host", "memory.", size=12)
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "how-range-join": range_join,
    "how-overlaps": overlaps,
    "how-dominance": dominance,
    "how-tiles": tiles,
    "how-memory": memory,
    "how-plan": plan,
    "how-workers": workers,
    "how-resident": resident,
}


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    for name, draw in PICTURES.items():
        path = ASSETS / f"{name}.svg"
        try:
            wanted = draw().svg()
        except UnreadableError as error:
            print(f"{path}:1: {error}", file=sys.stderr)
            return 1
        if not check:
            path.write_text(wanted, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != wanted:
            print(f"{path}:1: not what scripts/pictures.py makes: run it", file=sys.stderr)
            return 1
    others = {path.stem for path in ASSETS.glob("how-*.svg")} - PICTURES.keys()
    for name in sorted(others):
        print(f"{ASSETS / name}.svg:1: scripts/pictures.py does not make it", file=sys.stderr)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
