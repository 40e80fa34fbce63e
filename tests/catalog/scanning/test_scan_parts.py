"""A scan in parts, through temporary files, gives what a scan in memory gives."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.rows.schemas import seconds_of
from headrace.catalog.scanning.scan import scan, scan_settled
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.errors import HeadraceError
from headrace.stores.storage import open_storage
from tests.support.catalog_fakes import NOW_NS, OLD_NS, FakeSource, fake_runtime
from tests.support.scan_parts import FIELDS, assert_equal, outcome

pytestmark = pytest.mark.medium

NAMES = [*(f"{folder}/{name}.wav" for folder in "ab" for name in "uvwxyz"), "a/\u00e9.wav", "b/e\u0301.wav", "c.wav"]
SPELLINGS = [*NAMES, "./a/u.wav", "a/e\u0301.wav", "u.wav", "../c.wav", "gone.wav", "", None]
CONTENTS = [b"x" * 3, b"x" * 40, b"y" * 40, b"z" * 7, b"bad"]
KEYS = ["k1", "k2", "k 3", "", None]

FILES = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.sampled_from(CONTENTS), st.sampled_from([OLD_NS, NOW_NS])), max_size=12
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "path": st.sampled_from(SPELLINGS),
            "voice": st.sampled_from(SPELLINGS),
            "key": st.sampled_from(KEYS),
            "start": st.sampled_from([None, 0.0, 0.2, 9.0]),
            "end": st.sampled_from([None, 0.7, 4.02, 99.0]),
            "speaker": st.sampled_from(["s1", "s2", None]),
            "tags": st.sampled_from([[1], [], None]),
        }
    ),
    max_size=14,
)
SCHEMA = {
    "path": pl.String,
    "voice": pl.String,
    "key": pl.String,
    "start": pl.Float64,
    "end": pl.Float64,
    "speaker": pl.String,
    "tags": pl.List(pl.Int64),
}
KINDS = [{"samples": "files"}, {"samples": "rows"}, {"samples": "rows", "fields": FIELDS}]
ASKED = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "duplicates": st.sampled_from(["keep", "drop", "group"]),
        "key_form": st.sampled_from(["as_is", "slug"]),
        "settle_seconds": st.sampled_from([0, 5]),
        "min_seconds": st.sampled_from([0, 0.5]),
    }
).map(lambda asked: asked.pop("kind") | asked)


def source_of(files):
    fake = FakeSource()
    for path, (content, mtime_ns) in files.items():
        fake.put(path, content, mtime_ns)
    return fake


@settings(deadline=None, max_examples=12)
@given(files=FILES, later=FILES, rows=ROWS, asked=ASKED, table_bytes=st.sampled_from([300, 1500]))
def test_any_source_and_table_give_the_same_catalog_in_parts(files, later, rows, asked, table_bytes):
    source, table = source_of(files), pl.DataFrame(rows, schema=SCHEMA, orient="row")
    asked = CatalogSettings(**asked, excluded=frozenset({"k1", "a_v-0a0a0a0a0a0a"}))
    whole, parts = fake_runtime(), fake_runtime(table_bytes=table_bytes)
    first = outcome(lambda: scan(source, None, asked, table, whole))
    assert_equal(first, outcome(lambda: scan(source, None, asked, table, parts)))
    if isinstance(first, str):
        return
    previous = scan(source, None, asked, table, whole).catalog
    again = source_of({**files, **later})
    assert_equal(
        outcome(lambda: scan_settled(again, previous, asked, table, whole)),
        outcome(lambda: scan_settled(again, previous, asked, table, parts)),
    )


@settings(deadline=None, max_examples=12)
@given(files=FILES, rows=ROWS, asked=ASKED, group_by=st.sampled_from([None, "speaker"]))
def test_any_catalog_is_stored_with_the_same_bytes(files, rows, asked, group_by):
    config = DatasetConfig(
        name="parts",
        source={"uri": "fake", "metadata": "table.parquet", **asked},
        group_by=group_by,
        splits={"train": 0.7, "test": 0.3},
        shards={"partitions": {"train": 5}},
        output={"uri": "memory://"},
    )
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    stored = []
    for runtime in (fake_runtime(), fake_runtime(table_bytes=200)):
        output = open_storage("memory://")
        error = None
        try:
            update_catalog(config, source_of(files), table, output, runtime)
        except HeadraceError as raised:
            error = str(raised)
        stored.append((error, {entry.path: bytes(output.read(entry.path)) for entry in output.list()}))
    assert stored[0] == stored[1]


def test_seconds_do_not_depend_on_the_other_rows():
    rates = pl.DataFrame({"frames": [7]}).with_columns(rate=pl.lit(10))
    assert rates.select(pl.col("frames") / pl.col("rate")).item() in {
        0.7,
        7 * 0.1,
    }  # the latter if polars knows the rate
    assert rates.select(seconds_of(pl.col("frames"), pl.col("rate"))).item() == 0.7
    assert rates.select(seconds_of(pl.lit(None), pl.col("rate"))).item() is None


GROWTH = """
import sys
from functools import partial
from pathlib import Path
import headrace.catalog.judging.validation
from headrace.catalog.rows.schemas import seconds_of
from headrace.catalog.tables.metadata_files import open_metadata
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.config.source import SampleKind
from headrace.stores.storage import open_storage
from tests.support.catalog_fakes import FakeSource, fake_runtime

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024

folder, table_bytes = Path(sys.argv[1]), int(sys.argv[2])
source = FakeSource()
for number in range(500):
    source.put(f"{number}.wav", b"x" * 1000 + str(number).encode())
config = DatasetConfig(
    name="large",
    source={"uri": "fake", "metadata": "table.parquet", "samples": "rows", "settle_seconds": 0},
    splits={"train": 1.0},
    shards={"partitions": {"train": 50}},
    output={"uri": "x"},
)
table = open_metadata(folder / "table.parquet")
before = peak()
output = open_storage(str(folder / f"output {table_bytes}"))
scan, _ = update_catalog(config, source, table, output, fake_runtime(table_bytes=table_bytes))
print(scan.num_recordings, peak() - before)
"""


def growth_mb(folder, table_bytes):
    """Rows of the catalog, and how much the memory of a process grows while it scans."""
    command = [sys.executable, "-c", GROWTH, str(folder), str(table_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    return tuple(map(int, done.stdout.split()))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process's memory from /proc")
def test_a_table_in_parts_needs_a_fraction_of_the_memory(tmp_path):
    """150 MB of text. Measured: 600 MB at once and 150 MB in parts."""
    num_rows = 50_000
    rows = pl.DataFrame({"n": range(num_rows)}).select(
        path=pl.format("{}.wav", pl.col("n") % 500),
        start=pl.col("n") // 500 * 0.1,
        duration=pl.lit(0.1),
        text=pl.format("{} ", "n").repeat_by(500).list.join(""),
    )
    rows.write_parquet(tmp_path / "table.parquet")
    whole, parts = growth_mb(tmp_path, 1 << 40), growth_mb(tmp_path, 8 << 20)
    assert whole[0] == parts[0] == num_rows
    assert parts[1] < 0.6 * whole[1], (whole, parts)
