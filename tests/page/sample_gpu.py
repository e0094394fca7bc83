"""A query on a GPU, as a profile of it is."""

from sample_parts import CARD, GB, KB, MB, Recorder, node, profile

Q5 = """-- Revenue of local suppliers, by nation
SELECT
  n_name,
  sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey
  AND l_orderkey = o_orderkey
  AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey
  AND n_regionkey = r_regionkey
  AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01'
  AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY n_name
ORDER BY revenue DESC"""


def gpu():
    """A query of 15 nodes on a GPU, with about 600 spans."""
    gpu = "cuda:0"
    nodes = [
        node(
            0,
            None,
            "ProjectionExec",
            "expr=[n_name@0 as n_name, revenue@1 as revenue]",
            size=(5, 25, 512, 1),
            compute_ms=0.012,
            reason="it is above the download, where rows are on the host",
        ),
        node(
            1,
            0,
            "BowtieDownloadExec",
            "device=cuda:0",
            gpu,
            decision="transfer",
            size=(5, 25, 512, 1),
            compute_ms=0.31,
            received_bytes=480,
            reason="the node above is DataFusion's, so the rows leave the device here",
        ),
        node(
            2,
            1,
            "BowtieSortExec",
            "device=cuda:0, keys=[revenue DESC], output=[n_name, revenue]",
            gpu,
            replaces="SortPreservingMergeExec + SortExec",
            size=(5, 25, 480, 1),
            compute_ms=0.18,
            device_ms=0.09,
            peak_device_bytes=4 * MB,
            reason="its input is resident on cuda:0",
        ),
        node(
            3,
            2,
            "BowtieJoinAggregateExec",
            "device=cuda:0, join_type=Inner, strategy=hash, build=left, on=[s_suppkey = l_suppkey, s_nationkey = c_nationkey], gby=[n_name], aggr=[sum(l_extendedprice * (1 - l_discount))], output=[n_name, revenue]",
            gpu,
            strategy="hash",
            replaces="AggregateExec + RepartitionExec + AggregateExec + HashJoinExec",
            size=(5, 25, 480, 1),
            compute_ms=6.41,
            device_ms=5.87,
            peak_device_bytes=2_410 * MB,
            reason="fused with the join below it: no join rows are materialised",
            metrics=[
                ["output_rows", "5"],
                ["elapsed_compute", "6.41ms"],
                ["chunks", "8"],
                ["candidate_pairs", "72985"],
                ["uploaded_bytes", "0.0 B"],
                ["prepare_time", "1.92ms"],
                ["output_time", "4.08ms"],
                ["peak_device_bytes", "2.4 GB"],
                ["indexed_hash", "1"],
            ],
        ),
        node(
            4,
            3,
            "BowtieUploadExec",
            "device=cuda:0",
            gpu,
            decision="transfer",
            size=(20_037, 20_000, 720 * KB, 4),
            compute_ms=0.44,
            sent_bytes=720 * KB,
            reason="the rows below are on the host; they are sent once and stay resident until the join has read them",
        ),
        node(
            5,
            4,
            "HashJoinExec",
            "mode=CollectLeft, join_type=Inner, on=[(n_nationkey@0, s_nationkey@1)], projection=[n_name@1, s_suppkey@2, s_nationkey@3]",
            decision="declined",
            size=(20_037, 20_000, 720 * KB, 4),
            compute_ms=1.92,
            reason="estimated at 1.4 ms on the device with its transfers, at 0.9 ms in DataFusion",
        ),
        node(
            6,
            5,
            "HashJoinExec",
            "mode=CollectLeft, join_type=Inner, on=[(r_regionkey@0, n_regionkey@2)], projection=[n_nationkey@1, n_name@2]",
            decision="declined",
            size=(5, 5, 320, 1),
            compute_ms=0.21,
            reason="it has only 1 × 25 pairs of rows: bowtie gains nothing up to 65536",
        ),
        node(
            7,
            6,
            "FilterExec",
            "r_name@1 = ASIA, projection=[r_regionkey@0]",
            size=(1, 1, 8, 1),
            compute_ms=0.03,
            reason="no offloaded operator is below or above it",
        ),
        node(
            8,
            6,
            "DataSourceExec",
            "file_groups={1 group: [[nation.parquet]]}, projection=[n_nationkey, n_name, n_regionkey], file_type=parquet",
            size=(25, 25, 1_400, 1),
            compute_ms=0.35,
        ),
        node(
            9,
            3,
            "BowtieJoinExec",
            "device=cuda:0, join_type=Inner, strategy=equi, build=left, on=[o_orderkey = l_orderkey], output=[c_nationkey, l_suppkey, l_extendedprice, l_discount]",
            gpu,
            strategy="partitioned_hash",
            replaces="HashJoinExec + RepartitionExec",
            size=(9_103_167, 8_550_000, 278 * MB, 8),
            compute_ms=11.83,
            device_ms=10.62,
            peak_device_bytes=2_410 * MB,
            reason="estimated at 12.6 ms on the device with its transfers, at 214 ms in DataFusion",
            metrics=[
                ["output_rows", "9.10 M"],
                ["elapsed_compute", "11.83ms"],
                ["chunks", "8"],
                ["candidate_pairs", "9103167"],
                ["prepare_time", "4.31ms"],
                ["output_time", "6.02ms"],
                ["peak_device_bytes", "2.4 GB"],
                ["indexed_partitioned_hash", "1"],
                ["materialized_gftr", "8"],
                ["reduced_rows", "0"],
            ],
        ),
        node(
            10,
            9,
            "BowtieJoinExec",
            "device=cuda:0, join_type=Inner, strategy=equi, build=left, on=[c_custkey = o_custkey], output=[c_nationkey, o_orderkey]",
            gpu,
            strategy="direct",
            replaces="HashJoinExec + RepartitionExec",
            size=(2_275_919, 46_000, 26 * MB, 1),
            compute_ms=2.67,
            device_ms=2.41,
            peak_device_bytes=1_020 * MB,
            reason="estimated at 3.1 ms on the device with its transfers, at 61 ms in DataFusion",
        ),
        node(
            11,
            10,
            "BowtieScanExec",
            "device=cuda:0, table=customer, columns=[c_custkey, c_nationkey]",
            gpu,
            size=(1_500_000, 1_500_000, 17 * MB, 1),
            compute_ms=0.08,
            resident_bytes=17 * MB,
            reason="all its columns are on the device already",
        ),
        node(
            12,
            10,
            "BowtieScanExec",
            "device=cuda:0, table=orders, columns=[o_orderkey, o_custkey, o_orderdate], predicate=[o_orderdate >= 1994-01-01, o_orderdate < 1995-01-01], by_distinct_values=[o_orderdate]",
            gpu,
            size=(2_275_919, 2_310_000, 26 * MB, 4),
            compute_ms=1.21,
            device_ms=0.97,
            sent_bytes=57 * MB,
            resident_bytes=114 * MB,
            reason="2 of 3 columns are on the device already; o_orderdate was sent",
        ),
        node(
            13,
            9,
            "BowtieFilterExec",
            "device=cuda:0, predicate=l_shipmode IS NOT NULL",
            gpu,
            size=(59_986_052, 12_000, 1_602 * MB, 8),
            compute_ms=3.12,
            device_ms=2.94,
            peak_device_bytes=2_100 * MB,
            reason="the nodes above and below are on cuda:0, and its predicate compiles",
        ),
        node(
            14,
            13,
            "BowtieScanExec",
            "device=cuda:0, table=lineitem, columns=[l_orderkey, l_suppkey, l_extendedprice, l_discount, l_shipmode]",
            gpu,
            size=(59_986_052, 59_986_052, 1_602 * MB, 8),
            compute_ms=9.34,
            device_ms=1.88,
            sent_bytes=1_144 * MB,
            reason="none of its columns was on the device; they stay there for the next query",
        ),
    ]
    r = Recorder(5)
    r.span("host", "plan streams", 0.02, 0.5)
    host = r.span("host", "read nation", 0.4, 0.35, 8)
    host = r.span("host", "filter region", host, 0.06, 7)
    host = r.span("host", "join region", host, 0.22, 6)
    host = r.span("host", "join supplier", host, 1.9, 5)
    r.copies(0.55, 12, 24, 57 * MB // 24, column="o_orderdate")
    at = r.kernels(0.9, 12, ["decode_dict", "filter_mask", "compact"], 8, 0.03)
    at = r.kernels(max(at, 3.1), 10, ["index_direct", "probe_direct", "scan_counts", "gather"], 12, 0.045)
    r.reserve(at, 180 * MB)
    upload = r.copies(3.2, 4, 4, 180 * KB, column="s_suppkey")
    upload = r.copies(upload, 14, 64, 1_144 * MB // 64, rate=42 * GB / 1000, column="lineitem")
    r.reserve(upload, 0)
    at = max(at, 6.0)
    at = r.kernels(at, 9, ["radix_histogram", "radix_partition"], 14, 0.11)
    r.reserve(at, 310 * MB)
    for chunk in range(8):
        r.span("host", "submit", at - 0.2, 0.18, 13)
        at = r.kernels(at, 14, ["decode_bitpacked"], 5, 0.05)
        at = r.kernels(at, 13, ["filter_mask", "scan_counts", "compact"], 3, 0.11)
        r.reserve(at, 210 * MB)
        at = r.kernels(
            at,
            9,
            ["hash_build" if chunk == 0 else "radix_partition", "hash_probe", "scan_counts", "gather_partitioned"],
            3,
            0.08,
        )
        r.span("host", "submit", at - 0.3, 0.2, 9)
        at = r.kernels(at, 3, ["hash_probe", "accumulate_shared"], 6, 0.07)
        r.span("host", "submit", at - 0.2, 0.2, 3)
        r.reserve(at, -190 * MB)
        r.span("wait", "synchronize", at - 0.8, 0.75, 3)
    at = r.kernels(at, 3, ["merge_groups", "finish"], 1, 0.12)
    at = r.kernels(at, 2, ["sort_keys", "gather"], 1, 0.05)
    r.span("wait", "synchronize", at - 0.1, 0.14, 2)
    r.span("to_host", "copy", at + 0.05, 0.02, 1, 480, "n_name, revenue")
    end = r.span("host", "make batch", at + 0.1, 0.2, 1)
    r.reserve(end, -r.samples[-1][1] + 1_340 * MB)
    duration = round(end + 0.4, 3)
    return profile(
        "TPC-H Q5, scale factor 10",
        Q5,
        nodes,
        device=CARD,
        execution_ms=duration,
        rows=5,
        bytes=512,
        timeline=r.timeline(duration),
        memory={"device": gpu, "limit_bytes": 72 * GB, "samples": r.samples},
        summary={
            "text": "8 of 13 operators run on cuda:0: two joins, a join fused with its aggregation, a filter, a sort and three scans; 1.2 GB were sent and 480 B received.",
            "uploads": 3,
            "upload_bytes": 1_144 * MB + 57 * MB + 720 * KB,
            "downloads": 1,
            "download_bytes": 480,
            "estimated_ms": 31.0,
            "datafusion_ms": 486.0,
        },
        notes=[
            "The first query after a table is registered sends its columns. They stay on the device, so the next one is faster."
        ],
    )
