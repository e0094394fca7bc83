"""What samples are built of: nodes, a recorder of spans and reservations, a profile."""

import random

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
CARD = {"name": "cuda:0", "card": "NVIDIA H100 80GB HBM3", "memory_bytes": 80 * GB, "budget_bytes": 72 * GB}
OPTIONS = [
    ["bowtie.offload", "auto"],
    ["bowtie.device", "auto"],
    ["bowtie.device_memory", "auto"],
    ["bowtie.cache", "auto"],
    ["bowtie.host_cache", "auto"],
    ["bowtie.chunk_rows", "auto"],
    ["bowtie.theta_strategy", "auto"],
    ["bowtie.join_strategy", "auto"],
    ["bowtie.materialization", "auto"],
    ["bowtie.set_strategy", "auto"],
    ["bowtie.group_strategy", "auto"],
    ["datafusion.execution.target_partitions", "16"],
    ["datafusion.execution.batch_size", "8192"],
]


def node(id, parent, name, detail, runs_on="datafusion", size=(None,) * 4, **more):
    """A node of the plan. `size` has its rows, estimated rows, bytes and batches; `finish` fills in depth and share."""
    decision = more.pop("decision", "datafusion" if runs_on == "datafusion" else "offloaded")
    names = "compute_ms share device_ms sent_bytes received_bytes resident_bytes spilled_bytes peak_device_bytes"
    known = {"replaces": None, "strategy": None, "reason": "", "metrics": [], **dict.fromkeys(names.split())}
    assert not set(more) - set(known), more
    sizes = dict(zip(("rows", "estimated_rows", "bytes", "batches"), size, strict=True))
    place = {"id": id, "parent": parent, "depth": 0, "name": name, "detail": detail}
    return {**place, "runs_on": runs_on, "decision": decision, **known, **sizes, **more}


def finish(nodes):
    """Fills in depths, shares, and metrics where there are none."""
    total = sum(n["compute_ms"] or 0 for n in nodes)
    depth = {None: -1}
    for n in nodes:
        depth[n["id"]] = n["depth"] = depth[n["parent"]] + 1
        if n["compute_ms"] is not None and total > 0:
            n["share"] = n["compute_ms"] / total
        if not n["metrics"] and n["rows"] is not None:
            n["metrics"] = [
                ["output_rows", str(n["rows"])],
                ["elapsed_compute", f"{n['compute_ms'] or 0:.3f}ms"],
                ["output_batches", str(n["batches"] or 0)],
            ]
    return nodes


class Recorder:
    """Spans and reservations of device memory, in order of time."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.spans = []
        self.samples = [[0.0, 0]]

    def span(self, lane, name, start, ms, node=None, bytes=None, detail=""):
        place = {"lane": lane, "name": name, "start_ms": round(start, 4), "ms": round(ms, 4)}
        self.spans.append({**place, "node": node, "bytes": bytes, "detail": detail})
        return start + ms

    def reserve(self, at, bytes):
        self.samples.append([round(at, 5), max(0, self.samples[-1][1] + bytes)])

    def copies(self, at, node, pieces, bytes, rate=25 * GB / 1000, lane="to_device", column="column"):
        """Copies one after the other, at a rate in bytes per millisecond."""
        for piece in range(pieces):
            ms = bytes / rate * self.random.uniform(0.95, 1.15)
            self.reserve(at, bytes if lane == "to_device" else 0)
            self.span("host", "stage", at - 0.03, ms * 0.5, node, bytes, f"{column}, piece {piece}")
            end = self.span(lane, "copy", at, ms, node, bytes, f"{column}, piece {piece}")
            at = end + self.random.uniform(0.002, 0.03)
        return at

    def kernels(self, at, node, names, rounds, ms):
        """Kernels one after the other, in rounds."""
        for round in range(rounds):
            for name in names:
                long = ms * self.random.lognormvariate(0, 0.7)
                end = self.span("kernels", name, at, long, node, None, f"chunk {round}")
                at = end + self.random.uniform(0.001, 0.006)
        return at

    def timeline(self, duration, device="cuda:0", dropped=0):
        lanes = [
            ["host", "Host"],
            ["to_device", f"Copies to {device}"],
            ["kernels", f"Kernels on {device}"],
            ["to_host", f"Copies from {device}"],
            ["wait", "Waits for the card"],
        ]
        if device == "host":
            lanes = [["host", "Host"], ["kernels", "Kernels on the CPU backend"]]
        return {
            "duration_ms": duration,
            "lanes": [{"id": id, "title": title} for id, title in lanes],
            "spans": self.spans,
            "dropped": dropped,
        }


def profile(title, sql, nodes, **more):
    """A profile in which whatever `more` does not give is unknown, empty or 0."""
    offloaded = sum(n["decision"] == "offloaded" for n in nodes)
    operators = sum(n["decision"] != "transfer" for n in nodes)
    moved = dict.fromkeys(("uploads", "upload_bytes", "downloads", "download_bytes"), 0)
    estimates = {"estimated_ms": None, "datafusion_ms": None}
    summary = {
        "text": "",
        "offloaded": offloaded,
        "operators": operators,
        **moved,
        **estimates,
        **more.pop("summary", {}),
    }
    engine = {"bowtie": "0.1.0", "datafusion": "55.2.0"}
    run = {"planning_ms": 1.2, "execution_ms": 41.5, "rows": 10, "bytes": 1234}
    query = {"version": 1, "title": title, "sql": sql, "created": "2026-11-26T20:00:00Z", "engine": engine}
    none = {"device": None, "timeline": None, "memory": None, "notes": []}
    return {**query, "options": OPTIONS, **run, "summary": summary, "nodes": finish(nodes), **none, **more}
