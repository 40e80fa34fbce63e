"""Measures builds of 3,000 clips by step: `python benchmarks/small_changes.py [--clips 3000] [--rounds 3]`.

Clips of 5 s, 16 kHz, 16 bits, in four partitions, are built by `build.py`, each time in a new process: first all of
them, then, round by round, after one of them was replaced, and after nothing was. Reported are seconds by the clock of
each step (scan, shards, smoke test, report, and what is before and between them), the CPU seconds of the process and
its children, and the smoke test's share of the first build; of the rounds, the medians. Writes
`results/small_changes.json`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

import numpy as np
from partition_runs import ROOT

RATE_HZ, SECONDS = 16_000, 5
CHILD = """
import functools, json, sys, time

begun, spent = time.perf_counter(), {}

def timed(name, function):
    @functools.wraps(function)
    def wrapper(*arguments):
        begin = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin
    return wrapper

import build

if sys.argv[1:]:
    from headrace_dagster.build_command.driver import DatasetBuild

    steps = {"_scan": "scan", "_audio": "shards", "_smoke_test": "smoke test", "_report": "report"}
    for name, step in steps.items():
        setattr(DatasetBuild, name, timed(step, getattr(DatasetBuild, name)))
code = build.main(["clips"])
print(json.dumps(spent))
sys.exit(code)
"""

Steps = dict[str, float]


def write_clip(path: Path, seed: int) -> None:
    """Write noise whose level rises and falls, which FLAC packs about as well as speech."""
    random = np.random.default_rng(seed)
    level = np.repeat(random.uniform(50, 3000, 50), RATE_HZ * SECONDS // 50)
    smooth = np.convolve(random.standard_normal(RATE_HZ * SECONDS + 7), np.ones(8) / 8, "valid")
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes((smooth * level).astype(np.int16).tobytes())


def made(folder: Path, num_clips: int) -> None:
    """Write the recordings and the YAML file."""
    for name in ("recordings", "datasets", "home"):
        (folder / name).mkdir()
    for number in range(num_clips):
        write_clip(folder / "recordings" / f"{number:05d}.wav", number)
    content = {
        "source": {"uri": str(folder / "recordings"), "settle_seconds": 0},
        "splits": {"train": 1.0},
        "shards": {"partitions": {"train": 4}},
        "output": {"uri": str(folder / "output")},
    }
    (folder / "datasets" / "clips.yaml").write_text(json.dumps(content))  # JSON is YAML


def build(folder: Path, *steps: str) -> Steps:
    """Seconds of a build by the clock, in all, of CPU, and with `steps` of each step."""
    places = {"HEADRACE_DATASETS": str(folder / "datasets"), "DAGSTER_HOME": str(folder / "home")}
    began, used = time.perf_counter(), cpu_of_children()
    command = [sys.executable, "-c", CHILD, *steps]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | places, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    found: Steps = json.loads(done.stdout.splitlines()[-1])
    return {"all": seconds, "cpu": cpu_of_children() - used, **found, "rest": seconds - sum(found.values())}


def cpu_of_children() -> float:
    """CPU seconds of all processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="for the files, empty or absent; it stays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        made(folder, options.clips)
        first, rounds = build(folder, "steps"), {"one changed": list[Steps](), "no change": list[Steps]()}
        build(folder)  # repeats what the first did too soon after it wrote it
        for turn in range(options.rounds):
            write_clip(folder / "recordings" / "00007.wav", options.clips + turn)
            rounds["one changed"].append(build(folder, "steps"))
            build(folder)
            rounds["no change"].append(build(folder))
    medians = {
        name: {step: statistics.median(one[step] for one in found) for step in found[0]}
        for name, found in rounds.items()
    }
    share = first["smoke test"] / first["all"]
    for name, steps in {"first build": first, **medians}.items():
        print(f"{name}: " + ", ".join(f"{step} {seconds:.2f} s" for step, seconds in steps.items()))
    print(f"the smoke test's share of the first build: {share:.2f}")
    machine = {"cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    report = machine | {"clips": options.clips, "first": first, "smoke_share": share, "rounds": rounds}
    path = ROOT / "benchmarks" / "results" / "small_changes.json"
    path.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
