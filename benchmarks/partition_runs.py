"""Measures a tiny partition's run in `build.py`: `python benchmarks/partition_runs.py [--rounds 3] [TREE ...]`.

A data set of recordings of 50 ms, four for each partition, is built from nothing with few partitions and with many,
each time by a new process of `build.py`, on SQLite in a new `DAGSTER_HOME`. The difference divided by the number of
further partitions is the cost of a run: Dagster's part, and the work for the four recordings. Several working trees
(`git worktree add /tmp/old COMMIT`) take turns. Prints medians and ranges; writes `results/partition_runs.json`.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FEW, MANY = 8, 40
RATE_HZ = 8000
RECORDINGS = 4  # for each partition


def make_dataset(folder: Path, num_partitions: int, per_run: int = 1, recordings: int = RECORDINGS) -> None:
    """Recordings (for each partition) and the YAML file of a data set, with `per_run` partitions in a run."""
    num_recordings = num_partitions * recordings
    place = folder / "recordings"
    place.mkdir()
    for number in range(num_recordings):
        with wave.open(str(place / f"{number:05d}.wav"), "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
            file.writeframes(np.random.default_rng(number).integers(-9999, 9999, RATE_HZ // 20, np.int16).tobytes())
    content = {
        "source": {"uri": str(place), "settle_seconds": 0},
        "splits": {"train": 1.0},
        "shards": {"partitions": {"train": num_partitions}},
        "output": {"uri": str(folder / "output")},
        "runs": {"partitions_per_run": per_run, "per_tick": max(8, per_run), "in_flight": max(16, per_run)},
    }
    (folder / "datasets").mkdir()
    (folder / "datasets" / "tones.yaml").write_text(json.dumps(content))  # JSON is YAML


def measure(tree: Path, num_partitions: int, per_run: int = 1) -> tuple[float, float]:
    """Seconds of CPU and by the clock of a first build."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_dataset(folder, num_partitions, per_run)
        (folder / "home").mkdir()
        places = {"HEADRACE_DATASETS": str(folder / "datasets"), "DAGSTER_HOME": str(folder / "home")}
        return cost_of([[sys.executable, "build.py", "tones"]], tree, places)


def cost_of(commands: list[list[str]], tree: Path, variables: dict[str, str]) -> tuple[float, float]:
    """Seconds of CPU and by the clock of commands, one after the other."""
    before, start = _children(), time.perf_counter()
    for command in commands:
        subprocess.run(command, cwd=tree, env=os.environ | variables, check=True, capture_output=True)
    return _children() - before, time.perf_counter() - start


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {tree.resolve().name: [] for tree in options.trees}
    for _ in range(options.rounds):
        for tree in options.trees:
            few, many = (measure(tree.resolve(), count) for count in (FEW, MANY))
            cpu, clock = ((more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True))
            found[tree.resolve().name].append({"cpu_seconds": cpu, "seconds": clock, "cpu_of_few": few[0]})
    for name, rounds in found.items():
        cpu, clock = ([one[unit] for one in rounds] for unit in ("cpu_seconds", "seconds"))
        print(
            f"{name}: {statistics.median(cpu):.3f} s of CPU for each run ({min(cpu):.3f} to {max(cpu):.3f}), "
            f"{statistics.median(clock):.3f} s by the clock ({min(clock):.3f} to {max(clock):.3f})"
        )
    report = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "partitions": [FEW, MANY], "rounds": found}
    (ROOT / "benchmarks" / "results" / "partition_runs.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
