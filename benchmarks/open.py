"""Opening a snapshot and getting to the first batch's plan: `python benchmarks/open.py [--shards 1000000]`.

Commits a synthetic snapshot of so many shards of 1,000 samples. A fresh process then times `StreamingDataset(…)` and
the plan of the first batch, at the epoch's beginning and resumed at 90% of it. Reports milliseconds and the growth of
memory. No shard is there: opening must not look for any.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from headrace.snapshots import ShardTable, Snapshot, SplitTotals
from headrace.storage import LocalStorage

PER_SHARD = 1000


def make(folder: Path, num_shards: int) -> None:
    """A snapshot and its table, without the shards."""
    import hashlib  # noqa: PLC0415

    random = np.random.default_rng(0)
    table = ShardTable(
        prefix="",
        splits=("train",),
        split=np.zeros(num_shards, np.uint8),
        bucket=np.repeat(np.arange(-(-num_shards // 1000)), 1000)[:num_shards].astype(np.int32),
        sequence=np.tile(np.arange(1000), -(-num_shards // 1000))[:num_shards].astype(np.int32),
        digest=random.integers(0, 256, (num_shards, 6), np.uint8),
        num_samples=np.full(num_shards, PER_SHARD, np.int32),
        num_bytes=np.full(num_shards, 1 << 28, np.int64),
        num_frames=np.full(num_shards, PER_SHARD * 220_500, np.int64),
    )
    blob = table.to_bytes()
    totals = {"train": SplitTotals(num_shards, num_shards * PER_SHARD, num_shards << 28, 0.0)}
    name = "00000001.shards"
    snapshot = Snapshot("catalog", {"train-0000": 1}, totals, name, hashlib.sha256(blob).hexdigest())
    storage = LocalStorage(folder)
    storage.write(f"snapshots/{name}", blob)
    storage.write("snapshots/00000001.json", snapshot.to_json())


def measure(folder: Path) -> dict[str, float]:
    """Milliseconds and MiB, in this process."""
    from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415

    def peak_mib() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before, start = peak_mib(), time.perf_counter()
    dataset = StreamingDataset(remote=str(folder), batch_size=256, shuffle=True)
    opened = time.perf_counter()
    run = dataset.begin()
    run.plan(0)
    planned = time.perf_counter()
    state = dataset.state_dict(int(0.9 * dataset.size) // 256 * 256)
    dataset.load_state_dict(state)
    again = time.perf_counter()
    dataset.begin().plan(0)
    resumed = time.perf_counter()
    return {
        "open_ms": (opened - start) * 1e3,
        "first_plan_ms": (planned - opened) * 1e3,
        "resume_ms": (resumed - again) * 1e3,
        "memory_mib": peak_mib() - before,
    }


def main() -> None:
    """Make, measure apart, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(measure(options.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.shards)
        command = [sys.executable, __file__, "--folder", folder]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
        subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    main()
