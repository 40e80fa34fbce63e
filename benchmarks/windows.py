"""Opening 10^7 windows of 10^5 recordings, for the first time on a host and later, and the first batch's plan.

    python benchmarks/windows.py [--json PATH]

Commits synthetic snapshots with indexes and without tars, since opening reads no tar. Recordings have 50 minutes at
16 kHz, windows 30 s. Milliseconds, medians of five for later openings.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import open as synthetic
from headrace import StreamingDataset
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_entries import SampleEntry, build_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage

RECORDINGS = 100_000
RATE_HZ = 16_000
FRAMES = 3000 * RATE_HZ
REPEATS = 5


def make(folder: Path, num_shards: int) -> None:
    """A snapshot of `RECORDINGS` in some shards, and their indexes."""
    synthetic.PER_SHARD = RECORDINGS // num_shards
    synthetic.make(folder, num_shards)
    storage = LocalStorage(folder)
    table = read_table(storage, read_snapshot(storage).snapshot)
    ranges = [{"flac": (512 + 1024 * row, 1024 + 1024 * row)} for row in range(synthetic.PER_SHARD)]
    for shard in range(num_shards):
        entries = [SampleEntry(f"{shard:06d}-{row:06d}", one, FRAMES, RATE_HZ, 1) for row, one in enumerate(ranges)]
        name = table.name(shard)
        index = build_index(entries, shard=name.rpartition("/")[2], num_bytes=1 << 28)
        storage.write(index_name(name), index.to_bytes())


def opened(folder: Path, cache: Path) -> dict[str, float]:
    """Milliseconds of opening, of the first plan and of finding its windows."""
    begin = time.perf_counter()
    dataset = StreamingDataset(remote=str(folder), local=str(cache), batch_size=256, shuffle=True, window_seconds=30)
    open_ms = time.perf_counter()
    samples = dataset.epochs.begin().plan(0).rows.sample_ids
    plan_ms = time.perf_counter()
    windows = dataset.reading.readers[0].windows(samples)
    assert windows is not None
    assert dataset.size == 100 * RECORDINGS
    found = np.diff([begin, open_ms, plan_ms, time.perf_counter()]) * 1000
    return dict(zip(("open", "first plan", "windows of a batch"), found.tolist(), strict=True))


def main() -> None:
    """Make, measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/windows.json"))
    options = parser.parse_args()
    results: dict[str, object] = {"python": platform.python_version()}
    for num_shards in (100, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder) / "audio", num_shards)
            first = opened(Path(folder) / "audio", Path(folder) / "cache")
            later = [opened(Path(folder) / "audio", Path(folder) / "cache") for _ in range(REPEATS)]
            medians = {name: statistics.median(one[name] for one in later) for name in first}
        results[f"{num_shards} shards"] = {"first": first, "later": medians}
        print(num_shards, "shards", json.dumps({"first": first, "later": medians}), flush=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
