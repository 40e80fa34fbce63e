"""Seconds and memory of each kind of sensor tick, at 100,000 recordings in 1,000 partitions.

    python benchmarks/sensor_ticks.py [--shards 100 --samples-per-shard 100] [--json PATH]

With these options each manifest has 100 shards of 100 samples: 10⁷ samples in 10⁵ shards, of the same recordings.
A code server runs as `dagster dev` starts one, and is asked for ticks as the daemon asks; its memory is read from
outside. The same is measured with a sensor that does nothing over empty definitions, which is what Dagster takes by
itself. Seconds are those that the daemon waits, and CPU seconds those of the server. Prints a table and writes JSON.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import dagster as dg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # assets, resources, sensors from the checkout

from benchmarks._code_server import CodeServer, code_server
from benchmarks._sensor_data import NAME, Size, build_partitions, change_everything, write_dataset
from headrace_dagster.build_command.repository import REPOSITORY_ROOT

ROUNDS = 5
_EMPTY = """
import dagster as dg

@dg.asset
def nothing(): ...

@dg.sensor(target=nothing)
def idle():
    return dg.SkipReason("nothing to do")

defs = dg.Definitions(assets=[nothing], sensors=[idle])
"""


@dataclass(frozen=True)
class Cost:
    """One kind of tick: median and most over the rounds.

    Attributes:
        tick: which.
        said: its answer.
        seconds: median, as the daemon waits for it.
        most_seconds: the longest.
        cpu_seconds: median of the processor time of the server.
        growth_mb: the most that memory rose above what it was before the tick.
        peak_mb: the most that the server's process had.
    """

    tick: str
    said: str
    seconds: float
    most_seconds: float
    cpu_seconds: float
    growth_mb: float
    peak_mb: float


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--shards", type=int, default=0, help="in each manifest (default: as the recordings fill)")
    parser.add_argument("--samples-per-shard", type=int, default=50)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results/sensors.json")
    options = parser.parse_args()
    size = Size(options.recordings, options.partitions, options.shards, options.samples_per_shard)
    with tempfile.TemporaryDirectory() as folder:
        floor, rest, costs = measure(Path(folder), size)
    peak = max(cost.peak_mb for cost in costs)
    print(f"{options.recordings:,} recordings, {options.partitions:,} partitions; bars: 2 s, 200 MB")
    print(f"{'tick':<48}{'median s':>10}{'most s':>10}{'CPU s':>10}{'growth MB':>11}{'peak MB':>9}  what it said")
    for cost in costs:
        times = f"{cost.seconds:>10.3f}{cost.most_seconds:>10.3f}{cost.cpu_seconds:>10.3f}"
        print(f"{cost.tick:<48}{times}{cost.growth_mb:>11.0f}{cost.peak_mb:>9.0f}  {cost.said}")
    print(f"the server's process: {peak:.0f} MB at most, of which {floor:.0f} MB are Dagster's without us,")
    print(f"{rest - floor:.0f} MB our definitions and libraries, and {peak - rest:.0f} MB the ticks'")
    memory = {"dagster_mb": floor, "at_rest_mb": rest, "peak_mb": peak}
    _write(options.json, {**asdict(size), "memory": memory, "ticks": [asdict(cost) for cost in costs]})


def _write(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(exist_ok=True)
    hardware = {
        "cpus": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    path.write_text(json.dumps({"hardware": hardware, **content}, indent=1) + "\n")


def measure(folder: Path, size: Size) -> tuple[float, float, list[Cost]]:
    """Memory of an idle server without us (MB), of one with our definitions (MB), and all kinds of ticks over it."""
    (folder / "home").mkdir()
    (folder / "home/dagster.yaml").write_text((REPOSITORY_ROOT / "dagster_home/dagster.yaml").read_text())
    (folder / "empty.py").write_text(_EMPTY)
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        with code_server(instance, ["--python-file", str(folder / "empty.py")]) as server:
            floor = _measured(server, lambda: server.tick("idle", None), ROUNDS).peak_mb
        dataset = write_dataset(folder, instance, size)
        build_partitions(dataset, instance, 0, size.partitions // 2)
        target = ["--module-name", "definitions", "--working-directory", str(REPOSITORY_ROOT)]
        with code_server(instance, target, {"HEADRACE_DATASETS": str(folder / "datasets")}) as server:
            rest = _measured(server, lambda: server.tick("headrace_alerts", None), ROUNDS).peak_mb
            source, stale = f"{NAME}_source_changes", f"{NAME}_stale_partitions"
            quiet = server.tick(source, None).cursor
            costs = [
                _cost(server, "source_changes, no change", source, quiet),
                _cost(server, "source_changes, cursor lost", source, None),
                _cost(server, "stale_partitions, half of the partitions built", stale, None),
            ]
            build_partitions(dataset, instance, size.partitions // 2, size.partitions)
            costs += [
                _cost(server, "stale_partitions, audio built, columns not", stale, None),
            ]
            os.utime(folder / "recordings/000/000000.wav", (1, 1))
            costs.append(_cost(server, "source_changes, one file changed", source, quiet))
            change_everything(dataset)
            costs.append(_cost(server, "stale_partitions, all partitions stale", stale, None))
    return floor, rest, costs


@dataclass(frozen=True)
class _Rounds:
    seconds: list[float]
    cpu_seconds: list[float]
    growth_mb: float
    peak_mb: float


def _measured(server: CodeServer, tick: Callable[[], object], rounds: int) -> _Rounds:
    seconds, cpu_seconds, growths, peaks = [], [], [], []
    for _ in range(rounds):
        server.forget_peak()
        before = server.resident_mb()
        began, cpu = time.perf_counter(), server.cpu_seconds()
        tick()
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(server.cpu_seconds() - cpu)
        peaks.append(server.peak_mb())
        growths.append(peaks[-1] - before)
    return _Rounds(seconds, cpu_seconds, max(growths), max(peaks))


def _cost(server: CodeServer, tick: str, sensor: str, cursor: str | None) -> Cost:
    """Time and memory of a tick."""
    rounds = _measured(server, lambda: server.tick(sensor, cursor), ROUNDS)
    result = server.tick(sensor, cursor)
    said = f"{len(result.run_requests)} runs" if result.run_requests else (result.skip_message or "")[:40]
    seconds, cpu = rounds.seconds, statistics.median(rounds.cpu_seconds)
    return Cost(tick, said, statistics.median(seconds), max(seconds), cpu, rounds.growth_mb, rounds.peak_mb)


if __name__ == "__main__":
    main()
