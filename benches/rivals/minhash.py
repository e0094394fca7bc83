#!/usr/bin/env python3
"""Near-duplicates of titles by MinHash and banding, with the recall: what an estimate finds of the pairs that `near-duplicates` finds exactly.

    cargo bench --features measure --bench sets -- --export target/bench/tables --filter near-duplicates
    pip install rensa duckdb numpy
    python3 benches/rivals/minhash.py --tables target/bench/tables --size 1M

Signatures of 128 numbers over all windows of five characters, in 16 bands of 8: of two titles of similarity 0.8 some band agrees
with a probability of 0.95. Candidates are verified with their sets, so that precision is 1; recall is by the exact pairs, which this
program finds by a prefix filter.
"""

import argparse
import collections
import pathlib
import time

import duckdb
import numpy as np
import rensa

THRESHOLD = 0.8
PERMUTATIONS, BANDS = 128, 16


def shingles(title):
    return {title[i : i + 5] for i in range(len(title) - 4)} if len(title) >= 5 else ({title} if title else set())


def is_similar(a, b):
    shared = len(a & b)
    return shared >= THRESHOLD * (len(a) + len(b) - shared)


def by_minhash(sets):
    """Pairs that some band finds and that are similar; seconds for signatures and candidates, and for verifying."""
    begun = time.perf_counter()
    digests = np.asarray(rensa.RMinHash.digests_from_token_sets([sorted(s) for s in sets], PERMUTATIONS, 42), dtype=np.uint32)
    candidates = set()
    rows = PERMUTATIONS // BANDS
    for band in range(BANDS):
        keys = np.ascontiguousarray(digests[:, band * rows : (band + 1) * rows]).view(np.dtype((np.void, rows * 4))).ravel()
        order = np.argsort(keys, kind="stable")
        changes = np.flatnonzero(keys[order][1:] != keys[order][:-1]) + 1
        for group in np.split(order, changes):
            if len(group) > 1:
                group = group.tolist()
                candidates.update((group[i], group[j]) for i in range(len(group)) for j in range(i + 1, len(group)))
    found = time.perf_counter()
    pairs = {(a, b) for a, b in candidates if is_similar(sets[a], sets[b])}
    return pairs, len(candidates), found - begun, time.perf_counter() - found


def exact(sets):
    """All similar pairs: sets that share none of their rarest elements are not similar."""
    counts = collections.Counter(element for s in sets for element in s)
    index = collections.defaultdict(list)
    pairs = set()
    for row, s in enumerate(sets):
        prefix = sorted(s, key=lambda element: (counts[element], element))[: len(s) - int(np.ceil(THRESHOLD * len(s))) + 1]
        seen = set()
        for element in prefix:
            for other in index[element]:
                if other not in seen:
                    seen.add(other)
                    if is_similar(sets[other], s):
                        pairs.add((other, row))
            index[element].append(row)
    return pairs


def main():
    parser = argparse.ArgumentParser(description="near-duplicates by MinHash, with recall")
    parser.add_argument("--tables", type=pathlib.Path, default=pathlib.Path("target/bench/tables"))
    parser.add_argument("--size", default="100K")
    options = parser.parse_args()
    table = options.tables / f"titles-{options.size}-titles.parquet"
    titles = [title for (title,) in duckdb.sql(f"SELECT title FROM '{table}' ORDER BY id").fetchall()]
    begun = time.perf_counter()
    sets = [shingles(title) for title in titles]
    made = time.perf_counter() - begun
    pairs, candidates, signed, verified = by_minhash(sets)
    print(f"{len(titles)} titles: shingles {made:.2f} s, signatures and bands {signed:.2f} s, {candidates} candidates verified in {verified:.2f} s, {len(pairs)} pairs")
    truth = exact(sets)
    print(f"exact: {len(truth)} pairs; recall {len(pairs & truth) / max(len(truth), 1):.4f}, precision {len(pairs & truth) / max(len(pairs), 1):.4f}")


if __name__ == "__main__":
    main()
