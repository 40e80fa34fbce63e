"""Measures building costs by size of the data set: one function per row of a table, each in its own process.

    python benchmarks/growth.py [--rows build manifests …] [--sizes small full] [--json PATH] [--table]

Three kinds of rows: whole builds of tiny real recordings (`_growth_build`), synthetic manifests and snapshots
(`_growth_manifests`; files of shards exist only where a measurement looks at them), and synthetic catalogs, which
`growth_catalog` measures. Reported are CPU seconds (user and system) of the measured part without its imports, the
highest resident memory of its process, and bytes. New figures replace those of the same row and size in the JSON file.

An exponent says how CPU seconds grow: with exponent 1 in recordings, ten times the recordings cost ten times as much.
Exponents in recordings and in partitions are fitted together, by least squares of the logarithms. Where CPU stays under
a tenth of a second there is no exponent: it would be that of noise.

`--sizes small` takes some minutes on a shared machine. `--sizes full` has 10⁵ recordings in up to 1,000 partitions, and
10⁶ shards: half an hour and some gigabytes of disk.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from _growth_build import ROWS as BUILD_ROWS
from _growth_manifests import ROWS as MANIFEST_ROWS

Figures = dict[str, float]
Size = dict[str, int]
Row = Callable[[Path, Size], Figures]

ROWS: dict[str, dict[str, Row]] = {"build": BUILD_ROWS, "manifests": MANIFEST_ROWS}
SIZES: dict[str, dict[str, list[Size]]] = {
    "build": {
        "small": [{"recordings": n, "partitions": m} for n in (1_000, 10_000) for m in (1, 10, 100)],
        "full": [
            *({"recordings": n, "partitions": m} for n in (1_000, 10_000, 100_000) for m in (1, 10, 100)),
            *({"recordings": n, "partitions": 1_000} for n in (10_000, 100_000)),
        ],
    },
    "manifests": {
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
    },
}
RESULTS = Path(__file__).parent / "results"
_IDENTITY = ("row", "recordings", "shards", "samples_per_shard", "partitions")
_LEAST_SECONDS = 0.1


def main() -> None:
    """Measure every row at every size, write JSON, and print the table of all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--sizes", default="small", choices=["small", "full"])
    parser.add_argument("--json", type=Path, default=RESULTS / "growth.json")
    parser.add_argument("--table", action="store_true", help="measure nothing, print the table of the results")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)  # one measurement, in a process of its own
    options = parser.parse_args()
    if options.one:
        kind, name, folder, size = options.one
        print(json.dumps(measure(ROWS[kind][name], Path(folder), json.loads(size))))
        return
    if not options.table:
        for kind in options.rows:
            for size in SIZES[kind][options.sizes]:
                keep(options.json, measured(kind, size))
    print("\n".join(table(json.loads(options.json.read_text())["rows"], RESULTS / "growth_catalog.json")))


def measured(kind: str, size: Size) -> list[Figures]:
    """The figures of all rows of a kind at one size."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ROWS[kind]:
            found.append({"row": name, **size, **in_own_process(kind, name, Path(folder), size)})
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def keep(path: Path, found: list[Figures]) -> None:
    """Write the figures to the file, in place of those of the same rows and sizes."""
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    names = {_identity(figures) for figures in found}
    rows = [*(figures for figures in before if _identity(figures) not in names), *found]
    result = {"num_cores": os.cpu_count(), "python": platform.python_version(), "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def _identity(figures: Figures) -> tuple[float | None, ...]:
    return tuple(figures.get(name) for name in _IDENTITY)


def in_own_process(kind: str, name: str, folder: Path, size: Size) -> Figures:
    """The figures of one row."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, __file__, "--one", kind, name, str(folder), json.dumps(size)]
    figures: Figures = json.loads(subprocess.check_output(command, env=environment).splitlines()[-1])
    return figures


def measure(row: Row, folder: Path, size: Size) -> Figures:
    """Figures of one row, in this process; `row` adds its own."""
    if row in BUILD_ROWS.values():
        import headrace.assemble.audio  # noqa: PLC0415 - what imports cost does not grow
        import headrace.catalog.judging.validation  # noqa: PLC0415 - likewise
        import headrace.catalog.stored.update  # noqa: PLC0415 - likewise
        import headrace.streaming  # noqa: PLC0415 - likewise
        import headrace.verification.verify  # noqa: PLC0415 - likewise

        assert headrace.StreamingDataset is not None  # imports torch
    before = _resident_mb()
    cpu, wall = time.process_time(), time.perf_counter()
    own = row(folder, size)
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    spent |= {"rss_mb": peak, "growth_mb": peak - before}
    return {name: round(value, 3) for name, value in {**spent, **own}.items()}


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def table(rows: list[Figures], catalog: Path) -> Iterable[str]:
    """Lines of Markdown: each step's CPU seconds and memory above imports at each size, and its exponents."""
    groups = {
        "recordings, built": [row for row in rows if "recordings" in row],
        "shards, synthetic": [row for row in rows if "shards" in row],
        "recordings, synthetic catalog in 1,000 partitions": list(_of_catalog(catalog)),
    }
    for title, found in groups.items():
        if found:
            yield from _lines(title, found)


def _of_catalog(path: Path) -> Iterable[Figures]:
    """The results of `growth_catalog`, as rows."""
    content = json.loads(path.read_text()) if path.exists() else {"recordings": {}}
    for count, steps in content["recordings"].items():
        for name, costs in steps.items():
            if name != "prepare":
                size = {"recordings": int(count), "partitions": content["partitions"]}
                yield {
                    "row": name,
                    **size,
                    "cpu_s": costs["cpu_seconds"],
                    "growth_mb": costs["peak_mb"] - costs["imports_mb"],
                }


def _lines(title: str, rows: list[Figures]) -> Iterable[str]:
    main_size = title.split(",", maxsplit=1)[0]
    sizes = sorted({(int(row[main_size]), int(row["partitions"])) for row in rows})
    heads = [f"{count:,}; {partitions:,}" for count, partitions in sizes]
    yield f"| {title}; partitions → | {' | '.join(heads)} | exponent in {main_size} | in partitions |"
    yield "|---" * (len(sizes) + 3) + "|"
    for name in dict.fromkeys(row["row"] for row in rows):
        of_name = {(int(row[main_size]), int(row["partitions"])): row for row in rows if row["row"] == name}
        cells = [_cell(of_name.get(size)) for size in sizes]
        slopes = exponents([(size, row["cpu_s"]) for size, row in of_name.items()])
        yield f"| {str(name).replace('_', ' ')} | {' | '.join([*cells, *slopes])} |"
    yield ""


def _cell(row: Figures | None) -> str:
    return "" if row is None else f"{row['cpu_s']:.2f} s, {max(row['growth_mb'], 0):.0f} MB"


def exponents(costs: list[tuple[tuple[int, int], float]]) -> tuple[str, str]:
    """Growth exponents of CPU seconds in the two sizes, as text; empty where they cannot be determined."""
    known = [(size, seconds) for size, seconds in costs if seconds > 0]
    if len(known) < 2 or max(seconds for _, seconds in known) < _LEAST_SECONDS:
        return "", ""
    logs = np.log([size for size, _ in known])
    spread = np.ptp(logs, axis=0) > 0
    is_grid = spread.all() and np.linalg.matrix_rank(logs - logs.mean(axis=0)) == 2
    used = [0, 1] if is_grid and len({size[0] for size, _ in known}) * 2 <= len(known) else [0]
    design = np.column_stack([np.ones(len(known)), logs[:, used]])
    found = np.linalg.lstsq(design, np.log([seconds for _, seconds in known]), rcond=None)[0][1:]
    texts = [f"{value:.2f}" for value in found]
    return texts[0], texts[1] if len(texts) > 1 else ""


if __name__ == "__main__":
    main()
