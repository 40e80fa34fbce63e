"""Measures a build that finds nothing to do: `python benchmarks/no_op.py [--partitions 100 1000] [--folder DIR]`.

A data set of recordings of 50 ms, one for each partition, is built by `build.py` with 64 partitions to a run. Then
`build.py` is started again several times, each in a new process, and nothing has changed. Reported, the least of the
rounds: seconds by the clock and of CPU of a build that finds this by its standing, before Dagster is imported; and of
one without a standing, in which Dagster decides. Of that one also the CPU time of each step: imports and start, listing
the source, the rest of the scan, the comparison of the audio shards and columns, and what follows them, each with the
check of what is left at the end; and the exponent by which the CPU time without the listing grows with the partitions.
The first build takes 0.2 s of CPU for each partition; `--folder` keeps it for the next time. Writes
`results/no_op.json`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from partition_runs import ROOT, make_dataset

PER_RUN = 64
CHILD = """
import functools, json, sys, time

cpu = {}

def timed(name, function):
    @functools.wraps(function)
    def wrapper(*arguments):
        begin = time.process_time()
        try:
            return function(*arguments)
        finally:
            cpu[name] = cpu.get(name, 0.0) + time.process_time() - begin
    return wrapper

import build

if sys.argv[1:]:
    from headrace.catalog.stored import unchanged
    from headrace_dagster.build_command.driver import DatasetBuild

    unchanged.list_early = timed("listing", unchanged.list_early)
    for name in ("_scan", "_audio", "_follow"):
        setattr(DatasetBuild, name, timed(name, getattr(DatasetBuild, name)))
code = build.main(["tones"])
print(json.dumps({**cpu, "all": time.process_time()}))
sys.exit(code)
"""


def no_op(folder: Path) -> dict[str, float]:
    """Seconds of two builds, the second without a standing. Raises if one has something to do."""
    at_once, at_once_cpu = build(folder)
    shutil.rmtree(folder / "home/up_to_date")
    by_dagster, cpu = build(folder, "steps")
    wall = {"at_once": at_once, "at_once_cpu": at_once_cpu["all"], "by_dagster": by_dagster}
    listing = cpu.get("listing", 0.0)
    steps = {"listing": listing, "scan": cpu["_scan"] - listing, "shards": cpu["_audio"], "others": cpu["_follow"]}
    return {**wall, "start": cpu["all"] - sum(steps.values()), **steps, "without_listing": cpu["all"] - listing}


def build(folder: Path, *steps: str) -> tuple[float, dict[str, float]]:
    """Seconds of a build that has nothing to do by the clock, and of CPU in all and, with `steps`, by step."""
    places = {"HEADRACE_DATASETS": str(folder / "datasets"), "DAGSTER_HOME": str(folder / "home")}
    command, began = [sys.executable, "-c", CHILD, *steps], time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=os.environ | places, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if "nothing changed" not in done.stdout:
        raise SystemExit(done.stdout)
    return seconds, json.loads(done.stdout.splitlines()[-1])


def built(folder: Path, partitions: int) -> Path:
    """The folder of a data set that is up to date; it is built if it is not there."""
    place = folder / str(partitions)
    if not place.exists():
        (place / "home").mkdir(parents=True)
        make_dataset(place, partitions, PER_RUN, recordings=1)
    places = {"HEADRACE_DATASETS": str(place / "datasets"), "DAGSTER_HOME": str(place / "home")}
    for _ in range(2):  # the second build repeats what the first did too soon after it wrote it
        subprocess.run([sys.executable, "build.py", "tones"], cwd=ROOT, env=os.environ | places, check=True)
    return place


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    rounds: dict[int, list[dict[str, float]]] = {count: [] for count in options.partitions}
    with tempfile.TemporaryDirectory() as temporary:
        places = {count: built(options.folder or Path(temporary), count) for count in options.partitions}
        for _ in range(options.rounds):
            for count, place in places.items():
                rounds[count].append(no_op(place))
    least = {count: {step: min(one[step] for one in found) for step in found[0]} for count, found in rounds.items()}
    for count, steps in least.items():
        print(f"{count} partitions: " + ", ".join(f"{step} {seconds:.2f} s" for step, seconds in steps.items()))
    report: dict[str, object] = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "rounds": rounds, "least": least}
    if len(least) > 1:
        costs = [steps["without_listing"] for steps in least.values()]
        report["exponent"] = float(np.polyfit(np.log(list(least)), np.log(costs), 1)[0])
        print(f"exponent without the listing: {report['exponent']:.2f}")
    (ROOT / "benchmarks" / "results" / "no_op.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
