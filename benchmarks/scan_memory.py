"""Peak memory of catalogs that are large in other ways than that of `growth_catalog`: rejects, own schemas, fields.

    python benchmarks/scan_memory.py [--count 1000000] [--output PATH]

Each step runs in a process of its own, over a source that is a list of names; files are "opened" without a disk. The
steps of a case share a catalog, so the second scan finds what the first one stored. Memory is what the peak of the
process is above that of its imports. Prints a table and writes JSON.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandera.polars as pa
import polars as pl
from _process import peak_mb
from growth_catalog import _cpu_seconds, _path

import headrace.catalog.judging.validation  # noqa: F401 - what a scan imports late must not count
from headrace.audio import AudioInfo
from headrace.catalog.compared.changes import compare_stored
from headrace.catalog.compared.regressions import REGRESSION_COLUMNS, find_regressions
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.catalog.tables.metadata_files import open_metadata
from headrace.config.dataset import DatasetConfig
from headrace.format.rejects import RejectReason
from headrace.sources.content_digests import DigestedFile
from headrace.sources.listing import FileStamp, Listing
from headrace.stores.storage import open_storage

CASES = {
    "usable": ["table", "scan", "scan", "schema of values", "schema of columns"],
    "rejected files": ["rejected files", "rejected files", "compare", "problems"],
    "rejected rows": ["table", "rejected rows", "rejected rows", "compare", "problems"],
    "fields": ["table of fields", "fields"],
}
_CHUNK, _FEW = 1000, 1000
_PARTITIONS = 1000


class OfValues(pa.DataFrameModel):
    """A schema of pandera's own checks of values."""

    title: str = pa.Field(str_length={"min_value": 1})
    speaker: str
    snr: float = pa.Field(ge=0)


class OfColumns(OfValues):
    """A schema with a function of a whole column."""

    @pa.check("snr")
    def mean_is_low(cls, data: pa.PolarsData) -> pl.LazyFrame:  # noqa: N805 - pandera's form
        """Whether the mean is low."""
        return data.lazyframe.select(pl.col(data.key).mean() < 100)


class Names:
    """A source of `count` files, which are all usable, or are all rejected by the listing."""

    uri = "names"

    def __init__(self, count: int, *, usable: bool = True) -> None:
        self._count, self._usable = count, usable

    def list(self) -> Iterator[Listing]:
        """See `Source.list`."""
        for start in range(0, self._count, _CHUNK):
            found = Listing()
            for number in range(start, min(start + _CHUNK, self._count)):
                fault = None if self._usable else (RejectReason.BAD_NAME.value, f"file {number} has an invalid name")
                found.add(_path(number), FileStamp(100_000, 10**18), *(fault or (None, None)))
            yield found

    @contextmanager
    def open_digested(self, path: str, stamp: FileStamp) -> Iterator[DigestedFile]:  # noqa: ARG002 - the protocol's
        """See `Source.open_digested`."""
        yield DigestedFile(io.BytesIO(), hashlib.sha256(path.encode()).hexdigest())


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/scan_memory.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        step, folder, count = options.child
        print(json.dumps(measured(step, Path(folder), int(count))))
        return
    found = [{"case": case, **figures} for case in CASES for figures in _measured_case(case, options.count)]
    hardware = {"cpus": os.cpu_count(), "machine": platform.machine(), "load": os.getloadavg()[0]}
    content = {"hardware": hardware, "count": options.count, "steps": found}
    options.output.write_text(json.dumps(content, indent=1) + "\n")


def _measured_case(case: str, count: int) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="headrace-memory-") as folder:
        for step in CASES[case]:
            command = [sys.executable, __file__, "--child", step, folder, str(count)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            figures = json.loads(output.splitlines()[-1])
            print(f"{case:<16}{step:<20}{figures['cpu_seconds']:>8.1f} s{figures['growth_mb']:>8.0f} MB", flush=True)
            yield figures


def measured(step: str, folder: Path, count: int) -> dict[str, object]:
    """CPU seconds and memory of one step."""
    act = _acts(folder, count)[step]
    before, used = peak_mb(), _cpu_seconds()
    act()
    return {
        "step": step,
        "cpu_seconds": round(_cpu_seconds() - used, 2),
        "growth_mb": round(peak_mb() - before, 1),
    }


def _acts(folder: Path, count: int) -> dict[str, Callable[[], object]]:
    table, output = folder / "table.parquet", open_storage(str(folder / "output"))

    def scan(source: Names, path_column: str = "path", **settings: object) -> None:
        config = DatasetConfig(
            name="bench",
            source={"uri": "x", "settle_seconds": 0, **settings},
            splits={"train": 1.0},
            shards={"partitions": {"train": _PARTITIONS}},
            output={"uri": str(folder / "output")},
        )
        metadata = open_metadata(table, path_column=path_column) if table.exists() else None
        runtime = ScanRuntime(
            probe=lambda file, *, num_bytes: AudioInfo("WAV", "PCM_16", 220_500, 44_100, 1, 16),  # noqa: ARG005
            probe_version=lambda: "1",
            workers=ReadingThreads(2),
        )
        update_catalog(config, source, metadata, output, runtime)

    def schema(name: str) -> None:
        sys.modules["scan_memory"] = sys.modules[__name__]
        scan(Names(count), schema=f"scan_memory:{name}")

    def compare() -> None:
        catalog = existing_catalog(output)
        compare_stored(catalog, catalog)

    def problems() -> None:
        catalog = existing_catalog(output)
        rows = (rows for _, rows in catalog.partitions(REGRESSION_COLUMNS))
        find_regressions(output, rows, catalog.rejected(), [])

    fields = {"mix": "mix", "voice": "voice"}
    return {
        "table": lambda: _users(range(count)).write_parquet(table),
        "table of fields": lambda: _fields(count).write_parquet(table),
        "scan": lambda: scan(Names(count)),
        "schema of values": lambda: schema("OfValues"),
        "schema of columns": lambda: schema("OfColumns"),
        "rejected files": lambda: scan(Names(count, usable=False)),
        "rejected rows": lambda: scan(Names(_FEW)),
        "fields": lambda: scan(Names(count), "mix", samples="rows", metadata="x.parquet", fields=fields),
        "compare": compare,
        "problems": problems,
    }


def _users(numbers: range) -> pl.DataFrame:
    """The user's table: path and three columns."""
    return pl.DataFrame(
        {
            "path": [_path(number) for number in numbers],
            "title": [f"a line of text about recording {number}" for number in numbers],
            "speaker": [f"speaker {number % 5000}" for number in numbers],
            "snr": [number % 97 / 3 for number in numbers],
        }
    )


def _fields(count: int) -> pl.DataFrame:
    """A table with two files in each row."""
    mix = _users(range(0, count, 2)).rename({"path": "mix"})
    return mix.with_columns(voice=_users(range(1, count, 2))["path"])


if __name__ == "__main__":
    main()
