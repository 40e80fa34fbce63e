"""Opening a snapshot and getting to the first batch's plan.

    python benchmarks/open.py [--shards 1000000] [--json PATH]

Commits a synthetic snapshot of that many shards of 1,000 samples. No shard exists, since opening must not read any.
Then, in fresh processes, medians of five: milliseconds of `StreamingDataset(…)`, of `load_state_dict` where a run goes
on at 90% of its epoch, of the plan of the first batch, and of all together; and the growth of memory at its peak, all
libraries being loaded before.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import FrozenPartition, Snapshot, SplitTotals, TablePart
from headrace.stores.storage import LocalStorage

PER_SHARD = 1000
BATCH = 256
_PARTITION_SHARDS = 1000
_PART_SHARDS = 16 * _PARTITION_SHARDS
REPEATS = 5

Figures = dict[str, float]


def main() -> None:
    """Make, measure apart, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/open.json"))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # one measurement, in a process of its own
    options = parser.parse_args()
    if options.one:
        folder, start = options.one
        print(json.dumps(measure(Path(folder), float(start))))
        return
    print("| from | open ms | load state ms | first plan ms | together ms | CPU ms | growth MiB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.shards)
        save(Path(folder), 0.9)
        found = {f"{start:.0%}": in_own_processes(Path(folder), start) for start in (0.0, 0.9)}
    for start, figures in found.items():
        print(f"| {start} | " + " | ".join(f"{value:.0f}" for value in figures.values()) + " |")
    result = {"num_cores": os.cpu_count(), "python": platform.python_version(), "shards": options.shards} | found
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")


def make(folder: Path, num_shards: int) -> None:
    """A snapshot of partitions of 1,000 shards and its table, without the shards."""
    storage, random = LocalStorage(folder), np.random.default_rng(0)
    partitions, parts = {}, []
    for first in range(0, num_shards, _PART_SHARDS):
        table = _table(first, min(_PART_SHARDS, num_shards - first), random)
        blob = table.to_bytes()
        digest = hashlib.sha256(blob).hexdigest()
        bucket = first // _PARTITION_SHARDS
        part = TablePart(f"{bucket}.shards", f"train-{bucket:04d}", digest, len(blob), len(table), 0, "")
        storage.write(part.path, blob)
        parts.append(part)
        for number in sorted(set(table.bucket.tolist())):
            count = int((table.bucket == number).sum())
            partitions[f"train-{number:04d}"] = FrozenPartition(
                1, digest, digest, digest, count, 0, count * PER_SHARD, count << 28, 0.0, 0
            )
    totals = {"train": SplitTotals(num_shards, num_shards * PER_SHARD, num_shards << 28, 0.0)}
    per_part = _PART_SHARDS // _PARTITION_SHARDS
    snapshot = Snapshot("catalog", partitions, totals, tuple(parts), per_part, "fingerprint")
    storage.write("snapshots/00000001.json", snapshot.to_json())


def _table(first: int, count: int, random: np.random.Generator) -> ShardTable:
    """The rows of some shards, by number."""
    numbers = np.arange(first, first + count)
    return ShardTable(
        prefix="",
        splits=("train",),
        split=np.zeros(count, np.uint8),
        bucket=(numbers // _PARTITION_SHARDS).astype(np.int32),
        sequence=(numbers % _PARTITION_SHARDS).astype(np.int32),
        digest=random.integers(0, 256, (count, 6), np.uint8),
        num_samples=np.full(count, PER_SHARD, np.int32),
        num_bytes=np.full(count, 1 << 28, np.int64),
        num_frames=np.full(count, PER_SHARD * 220_500, np.int64),
    )


def save(folder: Path, start: float) -> None:
    """The state of a run at some share of its epoch."""
    from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415

    dataset = StreamingDataset(remote=str(folder), batch_size=BATCH, shuffle=True)
    state = dataset.state_dict(int(start * dataset.size) // BATCH * BATCH)
    (folder / "state.json").write_text(json.dumps(state))


def in_own_processes(folder: Path, start: float) -> Figures:
    """The median of each figure."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, __file__, "--one", str(folder), str(start)]
    runs = [json.loads(subprocess.check_output(command, env=environment)) for _ in range(REPEATS)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def measure(folder: Path, start: float) -> Figures:
    """Milliseconds and MiB, in this process."""
    import torch.distributed  # noqa: PLC0415, F401 - a training script has it, and a second of import is not ours

    from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415

    state = json.loads((folder / "state.json").read_text()) if start else None
    before = peak_mib(reset=True)
    cpu, began = time.process_time(), time.perf_counter()
    dataset = StreamingDataset(remote=str(folder), batch_size=BATCH, shuffle=True)
    opened = time.perf_counter()
    if state is not None:
        dataset.load_state_dict(state)
    loaded = time.perf_counter()
    dataset.epochs.begin().plan(0)
    planned = time.perf_counter()
    return {
        "open_ms": (opened - began) * 1e3,
        "load_state_ms": (loaded - opened) * 1e3,
        "first_plan_ms": (planned - loaded) * 1e3,
        "together_ms": (planned - began) * 1e3,
        "cpu_ms": (time.process_time() - cpu) * 1e3,
        "growth_mib": peak_mib() - before,
    }


def peak_mib(*, reset: bool = False) -> float:
    """Highest resident memory of this process since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
