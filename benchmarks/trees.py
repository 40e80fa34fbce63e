"""Building and reading in several versions of Headrace: `python benchmarks/trees.py OLD NEW [...] [--rounds 10]`.

Each argument is a working tree (`git worktree add /tmp/old COMMIT`). Every tree runs in one child process of its own,
which imports that tree's `headrace` and its `benchmarks/build.py`; the children are idle except while their turn is
measured. In each round every tree builds a partition of the same clips, and reads an epoch of a data set of these clips
that its `build.py` made before; the first one also measures the limit of building (libsndfile reads and encodes the
clips on all cores, nothing is written). Each round has its own order, because what ran before disturbs what runs next.
Ratios are between times of the same round. Prints tables of their medians and quartiles and writes JSON with the
hardware.
"""

import argparse
import inspect
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

NUM_THREADS = os.cpu_count() or 1
LIMIT, BUILD, READ = "limit", "build", "read"
NAME = "clips"


@dataclass(frozen=True, slots=True)
class Reading:
    """One system measured once."""

    round: int
    what: str
    system: str
    seconds: float
    cpu_seconds: float


class Child:
    """A process with one tree's code, which does what it is asked and reports how long that took."""

    def __init__(self, tree: Path, work: Path) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--child", str(work)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=tree, stdin=pipe, stdout=pipe, text=True)

    def measure(self, what: str) -> tuple[float, float]:
        """Seconds by the clock and of CPU."""
        print(what, file=self._process.stdin, flush=True)
        seconds, cpu_seconds = map(float, self._process.stdout.readline().split())
        return seconds, cpu_seconds

    def close(self) -> None:
        """Let the process end."""
        self._process.stdin.close()
        self._process.wait()


def run_child(work: Path) -> None:
    """Do what standard input names, line by line, with the code of the current folder."""
    sys.path[:0] = [str(Path.cwd() / "benchmarks"), str(Path.cwd())]
    import build as tree  # noqa: PLC0415 - that of the tree, as the library
    from headrace import StreamingDataLoader, StreamingDataset  # noqa: PLC0415

    source, catalog = work.parent / "source", tree.LocalStorage(work / "catalog")
    tree.scan(*(source, catalog, tree.ONE)[: len(inspect.signature(tree.scan).parameters)])
    paths = sorted(source.iterdir())

    remote = _built(work, source)

    def limit() -> None:
        with ThreadPoolExecutor(NUM_THREADS) as pool:
            for _ in pool.map(tree.encode, paths):
                pass

    def read() -> None:
        dataset = StreamingDataset(remote=remote, batch_size=32, shuffle=True)
        count = sum(len(batch["keys"]) for batch in StreamingDataLoader(dataset))
        if count < len(paths):  # the last batches are filled up with samples of the first
            sys.exit(f"{count} samples were read, not {len(paths)}")

    for line in sys.stdin:
        with tempfile.TemporaryDirectory(dir=work) as folder:
            clock, cpu = time.perf_counter(), time.process_time()
            if line.strip() == LIMIT:
                limit()
            elif line.strip() == READ:
                read()
            else:
                tree.build(source, catalog, tree.LocalStorage(Path(folder)), NUM_THREADS)
            print(time.perf_counter() - clock, time.process_time() - cpu, flush=True)


def _built(work: Path, source: Path) -> str:
    """Build a data set with the `build.py` of the current folder. Returns its folder of audio shards."""
    content = {
        "source": {"uri": str(source), "settle_seconds": 0},
        "splits": {"train": 1.0},
        "shards": {"partitions": {"train": 1}, "samples_per_shard": 50},
        "output": {"uri": str(work / "output")},
    }
    for folder in ("datasets", "home"):
        (work / folder).mkdir(parents=True)
    (work / "datasets" / f"{NAME}.yaml").write_text(json.dumps(content))  # JSON is YAML
    places = {"HEADRACE_DATASETS": str(work / "datasets"), "DAGSTER_HOME": str(work / "home")}
    subprocess.run([sys.executable, "build.py", NAME], env=os.environ | places, check=True, capture_output=True)
    return str(work / "output" / "audio")


def measure(trees: list[Path], num_clips: int, num_rounds: int) -> list[Reading]:
    """All rounds; one more before them warms the caches."""
    from build import make_clips  # noqa: PLC0415 - a child has another `build`

    readings = []
    with tempfile.TemporaryDirectory() as folder:
        make_clips(Path(folder) / "source", num_clips)
        children = {tree.name: Child(tree, Path(folder) / tree.name) for tree in trees}
        turns = [(LIMIT, trees[0].name), *((what, name) for what in (BUILD, READ) for name in children)]
        for round_ in range(num_rounds + 1):
            for what, name in random.Random(round_).sample(
                turns, len(turns)
            ):  # what ran before disturbs what runs next
                seconds = children[name].measure(what)
                if round_:
                    readings.append(Reading(round_, what, LIMIT if what == LIMIT else name, *seconds))
        for child in children.values():
            child.close()
    return readings


def table(readings: list[Reading], num_clips: int, others: list[str]) -> str:
    """The speed of each system, and its ratio to some of them."""
    times: dict[str, list[Reading]] = {}
    for reading in sorted(readings, key=lambda reading: reading.round):
        times.setdefault(reading.system, []).append(reading)
    titles = "".join(f"  {f'relative to {other} (quartiles; of CPU)':48}" for other in others)
    lines = [f"\n{readings[-1].what:14} clips/s  ms of CPU{titles}".rstrip()]
    for name, found in sorted(times.items()):
        speed = num_clips / statistics.median(reading.seconds for reading in found)
        cpu = statistics.median(reading.cpu_seconds for reading in found) / num_clips * 1e3
        ratios = "".join(f"  {_ratio(times[other], found):48}" for other in others)
        lines.append(f"{name:14} {speed:7.0f} {cpu:10.2f}{ratios}".rstrip())
    return "\n".join(lines)


def _ratio(others: list[Reading], found: list[Reading]) -> str:
    """Speed of `found` relative to `others`, whose rounds are the same."""
    clock = [other.seconds / one.seconds for other, one in zip(others, found, strict=True)]
    cpu = [other.cpu_seconds / one.cpu_seconds for other, one in zip(others, found, strict=True)]
    low, middle, high = statistics.quantiles(clock, n=4)
    return f"{middle:.3f} ({low:.3f}-{high:.3f}; {statistics.median(cpu):.3f})"


def _commit(tree: Path) -> str:
    """Commit that a working tree has checked out."""
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--clips", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, help="write the readings as JSON")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments.child)
        return
    readings = measure([tree.resolve() for tree in arguments.trees], arguments.clips, arguments.rounds)
    first = arguments.trees[0].resolve().name
    print(table([one for one in readings if one.what != READ], arguments.clips, [LIMIT, first]))
    print(table([one for one in readings if one.what == READ], arguments.clips, [first]))
    if arguments.out:
        report = {
            "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
            "clips": arguments.clips,
            "commits": {tree.name: _commit(tree) for tree in arguments.trees},
            "readings": [asdict(reading) for reading in readings],
        }
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
