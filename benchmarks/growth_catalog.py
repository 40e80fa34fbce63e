"""Measures the costs of a catalog by number of recordings: scan, store, one partition's run, sensors.

Each step runs in a process of its own, over a source that is a table of names: nothing is decoded, so the figures are
those of the catalog alone. CPU seconds are user and system together, memory is the peak of the process, bytes are those
that the step reads from and writes to the output. Prints a table and writes JSON.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from _process import peak_mb

NUM_PARTITIONS = 1_000
STEPS = {
    "scan_first": "first scan: facts known, metadata joined, stored",
    "scan_again": "scan, nothing changed",
    "scan_one": "scan, one row of the metadata changed",
    "partition": "a partition's run reads its recordings",
    "header": "a sensor reads the header",
    "stamps": "a sensor reads header and stamps",
    "report": "the report's figures of the catalog",
    "leaks": "the check of copies across splits",
}
_MTIME_NS = 10**18
_PART_ROWS = 10_000
_SETTINGS = {"splits": {"train": 1.0}, "shards": {"partitions": {"train": NUM_PARTITIONS}}}


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/growth_catalog.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        step, folder, count = options.child
        print(json.dumps(_measured(step, Path(folder), int(count))))
        return
    found = {count: _steps(count) for count in options.recordings}
    _show(found)
    hardware = {
        "cpus": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    content = {"hardware": hardware, "partitions": NUM_PARTITIONS, "recordings": found}
    options.output.write_text(json.dumps(content, indent=1) + "\n")


def _steps(count: int) -> dict[str, dict[str, float]]:
    """The costs of all steps over a catalog of this many recordings."""
    with tempfile.TemporaryDirectory(prefix="headrace-growth-") as folder:
        return {step: _in_child(step, folder, count) for step in ["prepare", *STEPS]}


def _in_child(step: str, folder: str, count: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", step, folder, str(count)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]))


def _measured(step: str, folder: Path, count: int) -> dict[str, float]:
    """CPU seconds, peak memory and traffic of one step, without its imports."""
    act = _act(step, folder, count)
    before, began, used = peak_mb(), time.perf_counter(), _cpu_seconds()
    traffic = act()
    return {
        "cpu_seconds": round(_cpu_seconds() - used, 3),
        "wall_seconds": round(time.perf_counter() - began, 3),
        "imports_mb": before,
        "peak_mb": peak_mb(),
        **traffic,
    }


def _act(step: str, folder: Path, count: int) -> Callable[[], dict[str, float]]:
    """Function that performs a step, with all imports made before, and returns its traffic with the output."""
    if step in {"header", "stamps"}:
        return _sensor(step, folder)
    import polars as pl  # noqa: PLC0415 - sensors do without

    from headrace.catalog.judging.leaks import LEAK_COLUMNS, leaks  # noqa: PLC0415
    from headrace.catalog.stored.parts import existing_catalog, partition_recordings  # noqa: PLC0415
    from headrace.catalog.stored.update import update_catalog  # noqa: PLC0415
    from headrace.report.catalog_figures import catalog_figures  # noqa: PLC0415

    config, output = _config(folder), _counting(folder)
    table = folder / "metadata.parquet"

    def scan() -> dict[str, float]:
        from headrace.catalog.scanning.scan_runtime import ScanRuntime  # noqa: PLC0415
        from headrace.catalog.tables.metadata_files import open_metadata  # noqa: PLC0415

        runtime = ScanRuntime(probe_version=lambda: "1")
        update_catalog(config, _Listed(count), open_metadata(table), output, runtime)
        return output.traffic()

    def read(use: Callable[[], object]) -> Callable[[], dict[str, float]]:
        def act() -> dict[str, float]:
            use()
            return output.traffic()

        return act

    if step == "prepare":
        return lambda: _prepare(folder, count)
    if step == "scan_one":
        changed = pl.read_parquet(table).with_columns(
            title=pl.when(pl.col("path") == _path(count // 2)).then(pl.lit("new")).otherwise("title")
        )
        changed.write_parquet(table)
    if step.startswith("scan_"):
        return scan
    if step == "partition":
        return read(lambda: partition_recordings(output, config, "train-0007"))
    catalog = existing_catalog(output)
    if step == "leaks":
        return read(lambda: leaks(lambda: catalog.partitions(LEAK_COLUMNS)))
    return read(lambda: catalog_figures(catalog.partitions(), ["train"]))


def _sensor(step: str, folder: Path) -> Callable[[], dict[str, float]]:
    from headrace.catalog.stored.header import read_current_header, read_stamps  # noqa: PLC0415

    config, output = _config(folder), _counting(folder)

    def act() -> dict[str, float]:
        header = read_current_header(output, config)
        if header is None:
            raise SystemExit("no catalog")
        if step == "stamps":
            read_stamps(output, header)
        return output.traffic()

    return act


class _Listed:
    """A source of files that are never opened: a scan knows them all."""

    uri = "listed"

    def __init__(self, count: int) -> None:
        self._count = count

    def list(self) -> Iterator[Any]:
        from headrace.sources.listing import Listing  # noqa: PLC0415

        for start in range(0, self._count, 10_000):
            size = min(10_000, self._count - start)
            none: list[Any] = [None] * size
            paths = [_path(number) for number in range(start, start + size)]
            yield Listing(paths, [100_000] * size, [_MTIME_NS] * size, none, none)


def _path(number: int) -> str:
    return f"{number // 1000:04d}/recording {number:08d}.wav"


def _config(folder: Path) -> Any:  # noqa: ANN401 - imported late
    from headrace.config.dataset import DatasetConfig  # noqa: PLC0415

    places = {"source": {"uri": "x", "settle_seconds": 0}, "output": {"uri": str(folder / "output")}}
    return DatasetConfig(name="bench", **places, **_SETTINGS)


def _prepare(folder: Path, count: int) -> dict[str, float]:
    """Write a metadata table, and parts with the facts of all files as an earlier scan would have left them."""
    import hashlib  # noqa: PLC0415

    import polars as pl  # noqa: PLC0415

    from headrace.catalog.rows.schemas import FILE_SCHEMA  # noqa: PLC0415
    from headrace.catalog.stored.storing import PartWriter  # noqa: PLC0415

    paths = [_path(number) for number in range(count)]
    facts = {
        "path": paths,
        "num_bytes": [100_000] * count,
        "mtime_ns": [_MTIME_NS] * count,
        "sha256": [hashlib.sha256(path.encode()).hexdigest() for path in paths],
        "container": ["WAV"] * count,
        "subtype": ["PCM_16"] * count,
        "num_frames": [220_500 + number % 1000 for number in range(count)],
        "sample_rate_hz": [44_100] * count,
        "num_channels": [1] * count,
        "bits_per_sample": [16] * count,
    }
    writer = PartWriter(_counting(folder), {}, "1")
    for number, part in enumerate(pl.DataFrame(facts, schema=FILE_SCHEMA).iter_slices(_PART_ROWS)):
        writer.table(f"train-{number:04d}.files", part)
    user = {
        "path": paths,
        "title": [f"a line of text about recording {number}" for number in range(count)],
        "speaker": [f"speaker {number % 5000}" for number in range(count)],
        "snr": [number % 97 / 3 for number in range(count)],
    }
    pl.DataFrame(user).write_parquet(folder / "metadata.parquet")
    return {}


def _counting(folder: Path) -> Any:  # noqa: ANN401 - imported late
    from headrace.stores.storage import LocalStorage  # noqa: PLC0415

    class Counting(LocalStorage):
        """Counts the bytes and calls that read and write whole objects."""

        def __init__(self, root: Path) -> None:
            super().__init__(root)
            object.__setattr__(self, "counts", {"reads": 0, "read_bytes": 0, "writes": 0, "written_bytes": 0})

        def read(self, path: str) -> bytes:
            data = super().read(path)
            self.counts["reads"] += 1
            self.counts["read_bytes"] += len(data)
            return data

        def write(self, path: str, data: Any) -> None:  # noqa: ANN401
            super().write(path, data)
            self.counts["writes"] += 1
            self.counts["written_bytes"] += self.size(path)

        def traffic(self) -> dict[str, float]:
            return dict(self.counts)

    return Counting(folder / "output")


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _show(found: dict[int, dict[str, dict[str, float]]]) -> None:
    print(f"{NUM_PARTITIONS:,} partitions")
    print(f"{'step':<52}{'recordings':>11}{'CPU s':>9}{'peak MB':>9}{'read MB':>9}{'written MB':>11}")
    for step, text in STEPS.items():
        for count, costs in found.items():
            cost = costs[step]
            moved = f"{cost['read_bytes'] / 1e6:>9.2f}{cost['written_bytes'] / 1e6:>11.2f}"
            print(f"{text:<52}{count:>11,}{cost['cpu_seconds']:>9.2f}{cost['peak_mb']:>9.0f}{moved}")


if __name__ == "__main__":
    main()
