"""Opening a view of a synthetic snapshot, getting to the first batch's plan, and finding the rows of a batch.

    python benchmarks/views.py [--json PATH]

Commits synthetic snapshots, without shards, since opening must not read any, and a view that keeps 1% of their samples
at random. Then, in fresh processes, medians of five: milliseconds of `StreamingDataset(…, view=…)`, of
`load_state_dict` where a run goes on at 90% of its epoch, of the plan of the first batch, and of the rows of its
samples in their shards, for which counts are read; and the growth of memory at its peak, all libraries being loaded
before. The same without the view, for comparison.

At last, the making of views of 10^6 samples in 1,000 shards from columns in local files (a float, two texts, the keys):
seconds on one thread of Python and what polars takes, and MiB.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.open import make, peak_mib
from headrace.format.beside.column_files import read_columns
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable, keys_digest
from headrace.format.beside.view_files import ViewOrigin, commit_view, partitions_of
from headrace.format.beside.views import Balance, PartitionCounts, ViewDefinition
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage

BATCH = 256
SHARE = 0.01
REPEATS = 5
SHARDS = {"10^7 samples in 10^4 shards": 10_000, "10^9 samples in 10^6 shards": 1_000_000}

Figures = dict[str, float]


def main() -> None:
    """Make, measure apart, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/views.json"))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # one measurement, in a process of its own
    parser.add_argument("--making", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.making:
        print(json.dumps(measure_making()))
        return
    if options.one:
        folder, view, start = options.one
        print(json.dumps(measure(Path(folder), view or None, float(start))))
        return
    print("| data | view | from | open ms | load state ms | first plan ms | rows of a batch ms | CPU ms | growth MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    found: dict[str, object] = {}
    for name, num_shards in SHARDS.items():
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            make(Path(folder) / "audio", num_shards)
            made = time.perf_counter()
            make_view(Path(folder), SHARE)
            results: dict[str, object] = {"commit_view_seconds": time.perf_counter() - made}
            for view in ("kept", ""):
                for start in (0.0, 0.9):
                    save(Path(folder), view or None, start)
                    figures = in_own_processes(Path(folder), view, start)
                    label = f"{'1% kept' if view else 'without'}"
                    cells = " | ".join(f"{value:.0f}" for value in figures.values())
                    print(f"| {name} | {label} | {start:.0%} | {cells} |", flush=True)
                    results[f"{label} from {start:.0%}"] = figures
            results["make_seconds"] = made - began
        found[name] = results
    found["making, 10^6 samples in 10^3 shards"] = in_own_process_making()
    result = {"num_cores": os.cpu_count(), "python": platform.python_version(), "share": SHARE} | found
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")


def make_view(output: Path, share: float, name: str = "kept") -> None:
    """A view that keeps a share of the samples of `output/audio` at random."""
    audio = LocalStorage(output / "audio")
    snapshot = read_snapshot(audio)
    table = read_table(audio, snapshot.snapshot)

    def parts() -> Iterator[PartitionCounts]:
        random = np.random.default_rng(1)
        for partition, rows in partitions_of(table):
            sizes = table.num_samples[rows]
            counts = (random.random(int(sizes.sum()), np.float32) < share).view(np.uint8)
            yield PartitionCounts(partition, sizes, counts)

    commit_view(LocalStorage(output / "views" / name), ViewOrigin(ViewDefinition("kept"), snapshot, table), parts())


def save(folder: Path, view: str | None, start: float) -> None:
    """The state of a run at some share of its epoch."""
    from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415

    dataset = StreamingDataset(remote=str(folder / "audio"), view=view, batch_size=BATCH, shuffle=True)
    state = dataset.state_dict(int(start * dataset.size) // BATCH * BATCH)
    (folder / "state.json").write_text(json.dumps(state))


def in_own_processes(folder: Path, view: str, start: float) -> Figures:
    """The median of each figure."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, __file__, "--one", str(folder), view, str(start)]
    runs = [json.loads(subprocess.check_output(command, env=environment)) for _ in range(REPEATS)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def measure(folder: Path, view: str | None, start: float) -> Figures:
    """Milliseconds and MiB, in this process."""
    import torch.distributed  # noqa: PLC0415, F401 - a training script has it, and a second of import is not ours

    from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415

    state = json.loads((folder / "state.json").read_text()) if start else None
    before = peak_mib(reset=True)
    cpu, began = time.process_time(), time.perf_counter()
    dataset = StreamingDataset(remote=str(folder / "audio"), view=view, batch_size=BATCH, shuffle=True)
    opened = time.perf_counter()
    if state is not None:
        dataset.load_state_dict(state)
    loaded = time.perf_counter()
    plan = dataset.epochs.begin().plan(0)
    planned = time.perf_counter()
    dataset.reading.readers[0].find(plan.rows.sample_ids)
    located = time.perf_counter()
    return {
        "open_ms": (opened - began) * 1e3,
        "load_state_ms": (loaded - opened) * 1e3,
        "first_plan_ms": (planned - loaded) * 1e3,
        "rows_ms": (located - planned) * 1e3,
        "cpu_ms": (time.process_time() - cpu) * 1e3,
        "growth_mib": peak_mib() - before,
    }


VIEWS = {
    "a number": ViewDefinition("snr > 20"),
    "numbers and texts": ViewDefinition("snr > 20 and lang = 'de' and not text like '%9%'"),
    "balance by a text": ViewDefinition("snr > 5", Balance("lang", 0.5)),
}


class ColumnFiles:
    """A set of columns for the shards of a synthetic table, as `views.making` reads it."""

    def __init__(self, folder: Path, table: ShardTable) -> None:
        self.storage = LocalStorage(folder)
        self.snapshot = None
        random = np.random.default_rng(2)
        for row in range(len(table)):
            number = int(table.num_samples[row])
            keys = [f"sample-{row:06d}-{i:06d}" for i in range(number)]
            values = {
                "snr": (ColumnKind.FLOAT, (40 * random.random(number)).tolist(), False),
                "lang": (
                    ColumnKind.STRING,
                    random.choice(["de", "en", "fr", "nl"], number, p=[0.6, 0.3, 0.09, 0.01]),
                    False,
                ),
                "text": (ColumnKind.STRING, [f"some words that were said {i}" for i in range(number)], False),
                "key": (ColumnKind.STRING, keys, True),
            }
            columns = tuple(Column.of(ColumnSpec(name, kind, fact), of) for name, (kind, of, fact) in values.items())
            self.storage.write(table.name(row), ColumnTable(columns, number, keys_digest(keys), "").to_bytes())
            self.specs = tuple(column.spec for column in columns)

    def read(self, audio_shard: str) -> ColumnTable:
        """The columns of a shard."""
        return read_columns(self.storage, audio_shard)


def in_own_process_making() -> object:
    """Seconds and MiB of each view."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    found = json.loads(subprocess.check_output([sys.executable, __file__, "--making"], env=environment))
    for name, figures in found.items():
        print(f"making, {name}: {figures['seconds']:.1f} s ({figures['cpu_seconds']:.1f} s of CPU)", flush=True)
    return found


def measure_making() -> dict[str, Figures]:
    """Seconds and MiB, in this process."""
    from headrace.views.making import ViewData, ViewMaking  # noqa: PLC0415 - polars

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "audio", 1000)
        audio = LocalStorage(Path(folder) / "audio")
        snapshot = read_snapshot(audio)
        table = read_table(audio, snapshot.snapshot)
        data = ViewData(snapshot, table, {"metadata": ColumnFiles(Path(folder) / "columns", table)})
        for name, definition in VIEWS.items():
            before, cpu, began = peak_mib(reset=True), time.process_time(), time.perf_counter()
            kept = sum(int(part.counts.sum()) for part in ViewMaking(definition, data).parts())
            found[name] = {
                "seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - cpu,
                "growth_mib": peak_mib() - before,
                "kept": kept,
            }
    return found


if __name__ == "__main__":
    main()
