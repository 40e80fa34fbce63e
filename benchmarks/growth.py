"""How the cost of building grows with the data set: one function per row of a table, each in a process of its own.

    python benchmarks/growth.py [--rows manifests …] [--sizes small full] [--json PATH]

Tables are synthetic: files of shards exist only where a measurement looks at them. Reported are CPU seconds (user and
system) of the measured part, the highest resident memory of its process, its growth over the imports, and bytes.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _growth_manifests import ROWS as MANIFEST_ROWS

Figures = dict[str, float]
Row = Callable[[Path, dict[str, int]], Figures]

SIZES: dict[str, list[dict[str, int]]] = {
    "small": [
        {"shards": 1_000, "samples_per_shard": 100, "partitions": 100},
        {"shards": 10_000, "samples_per_shard": 100, "partitions": 1_000},
    ],
    "full": [
        {"shards": 1_000, "samples_per_shard": 100, "partitions": 100},
        {"shards": 10_000, "samples_per_shard": 100, "partitions": 1_000},
        {"shards": 100_000, "samples_per_shard": 100, "partitions": 1_000},
        {"shards": 1_000_000, "samples_per_shard": 2, "partitions": 1_000},
    ],
}
ROWS: dict[str, Row] = {**MANIFEST_ROWS}


def main() -> None:
    """Measure every row at every size, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--sizes", default="full", choices=list(SIZES))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/growth.json"))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # one measurement, in a process of its own
    options = parser.parse_args()
    if options.one:
        name, folder, size = options.one
        print(json.dumps(measure(ROWS[name], Path(folder), json.loads(size))))
        return
    found = []
    for size in SIZES[options.sizes]:
        with tempfile.TemporaryDirectory() as folder:
            for name in options.rows:
                figures = in_own_process(name, Path(folder), size)
                found.append({"row": name, **size, **figures})
                print(json.dumps(found[-1]), flush=True)
    result = {"num_cores": os.cpu_count(), "python": platform.python_version(), "rows": found}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")


def in_own_process(name: str, folder: Path, size: dict[str, int]) -> Figures:
    """The figures of one row."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, __file__, "--one", name, str(folder), json.dumps(size)]
    figures: Figures = json.loads(subprocess.check_output(command, env=environment))
    return figures


def measure(row: Row, folder: Path, size: dict[str, int]) -> Figures:
    """Figures of one row, in this process; `row` adds its own."""
    before = _resident_mb()
    cpu, wall = time.process_time(), time.perf_counter()
    own = row(folder, size)
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    spent |= {"rss_mb": peak, "growth_mb": peak - before}
    return {name: round(value, 3) for name, value in {**spent, **own}.items()}


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
