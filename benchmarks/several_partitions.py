"""Measures the savings of several partitions in a run: `python benchmarks/several_partitions.py [--rounds 3]`.

The same tiny partitions as in `partition_runs.py`, with one and with eight partitions to a run, in turn:

- 8 partitions, each run in a new process, which imports Dagster and loads the definitions, as a run of the daemon does;
- the same in `build.py`, which makes all runs in its process: the difference between 40 and 8 partitions, divided.

Prints medians and ranges; writes `results/several_partitions.json`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from partition_runs import FEW, MANY, ROOT, cost_of, make_dataset, measure

PER_RUN = (1, 8)
PARTITIONS = 8
RUN = """
import sys

import dagster as dg

from definitions import defs

assets, *partitions = sys.argv[1:]
ends = {"dagster/asset_partition_range_start": partitions[0], "dagster/asset_partition_range_end": partitions[-1]}
is_range = len(partitions) > 1
with dg.DagsterInstance.get() as instance:
    made = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(["tones", name]) for name in assets.split(",")],
        partition_key=None if is_range or not partitions[0] else partitions[0],
        tags=ends if is_range else {},
    )
assert made.success
"""


def processes(per_run: int) -> tuple[float, float]:
    """Seconds of CPU and by the clock of the runs of all partitions, each run in a process of its own."""
    run = [sys.executable, "-c", RUN]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_dataset(folder, PARTITIONS, per_run)
        (folder / "home").mkdir()
        places = {"HEADRACE_DATASETS": str(folder / "datasets"), "DAGSTER_HOME": str(folder / "home")}
        cost_of([[*run, "catalog", ""]], ROOT, places)
        names = [f"train-{number:04d}" for number in range(PARTITIONS)]
        groups = [names[start : start + per_run] for start in range(0, PARTITIONS, per_run)]
        found = cost_of([[*run, "audio_shards,metadata_columns", *group] for group in groups], ROOT, places)
        if len(list((folder / "output" / "audio" / "manifests").iterdir())) < PARTITIONS:
            raise RuntimeError("some partitions were not built")
        return found


def build(per_run: int) -> tuple[float, float]:
    """Seconds of CPU and by the clock of one further partition in `build.py`."""
    few, many = (measure(ROOT, count, per_run) for count in (FEW, MANY))
    cpu, clock = ((more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True))
    return cpu, clock


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kinds = {"8 partitions, a process for each run": processes, "one more partition in build.py": build}
    report: dict[str, object] = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "partitions": PARTITIONS}
    for kind, of_runs in kinds.items():
        found: dict[int, list[tuple[float, float]]] = {per_run: [] for per_run in PER_RUN}
        for _ in range(options.rounds):
            for per_run in PER_RUN:
                found[per_run].append(of_runs(per_run))
        for per_run, rounds in found.items():
            cpu, clock = zip(*rounds, strict=True)
            print(
                f"{kind}, {per_run} to a run: {statistics.median(cpu):.3f} s of CPU ({min(cpu):.3f} to "
                f"{max(cpu):.3f}), {statistics.median(clock):.3f} s by the clock ({min(clock):.3f} to {max(clock):.3f})"
            )
        report[kind] = {
            per_run: [dict(zip(("cpu", "clock"), one, strict=True)) for one in found[per_run]] for per_run in PER_RUN
        }
    (ROOT / "benchmarks" / "results" / "several_partitions.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
