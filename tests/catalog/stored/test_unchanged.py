"""When a scan is made, and when the stored catalog stays because a scan would find the same."""

import contextlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from headrace.catalog.rows.schemas import FACT_SCHEMA
from headrace.catalog.scanning.checkpoint import CHECKPOINT_FOLDER, ScanCheckpoint
from headrace.catalog.stored import unchanged
from headrace.catalog.stored.header import HEADER_PATH, REJECTED_PATH, read_header
from headrace.catalog.stored.header_lines import PARTS_FOLDER
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.storing import store_decode_rejects
from headrace.catalog.stored.unchanged import UserTables, refresh_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.catalog.tables.metadata_files import TableInMemory
from headrace.errors import FormatError
from headrace.format.manifests.manifests import Manifest, ManifestRejection, NumberedManifest
from headrace.sources.listing import FileStamp, Listing
from headrace.stores.storage import LocalStorage
from tests.support.catalog_fakes import NOW_NS, OLD_NS, FakeSource, fake_runtime
from tests.support.projects import Project

pytestmark = pytest.mark.medium

SECOND_NS = 1_000_000_000
FIELDS = ("num_recordings", "num_used", "num_found", "num_rows", "num_left_out_rows", "num_left_out_files")
FIELDS += ("num_merged_rows", "num_waiting_rows", "num_cut_rows", "num_unsettled", "figures", "schema", "probe_version")


@dataclass
class ListedSource(FakeSource):
    """A source with change times, and with entries that cannot be opened or read."""

    ctime_ns: int = OLD_NS
    unopened: dict = field(default_factory=dict)
    unreadable: set = field(default_factory=set)
    num_lists: int = 0

    def list(self):
        self.num_lists += 1
        for path, file in self.files.items():
            found = Listing()
            found.add(path, FileStamp(len(file.content), file.mtime_ns, self.ctime_ns))
            yield found
        found = Listing()
        for path, (code, reason) in self.unopened.items():
            found.add(path, None, code, reason)
        yield found

    @contextlib.contextmanager
    def open(self, path, stamp):
        if path in self.unreadable:
            raise OSError(13, "Permission denied")
        with super().open(path, FileStamp(stamp.num_bytes, stamp.mtime_ns)) as file:
            yield file


class World:
    """A data set of a few files. `scan` returns whether the tables were opened, which only a scan does."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.project, self.output, self.source = Project(folder), LocalStorage(folder / "store"), ListedSource()
        self.sections = {"source": {"uri": "x", "metadata": "m.csv", "settle_seconds": 5}}
        self.sections |= {"shards": {"partitions": {"train": 4, "test": 1}}}
        self.table = pl.DataFrame({"path": ["a.wav", "c.wav"], "start": [0.0, 0.0], "end": [0.1, 0.2], "n": [1, 2]})
        self.stamps = {"m.csv": FileStamp(1, OLD_NS, OLD_NS)}
        self.excluded = frozenset()
        self.runtime = {}
        for number, name in enumerate(("a.wav", "b/b.wav", "c.wav", "d.wav")):
            self.source.put(name, b"1" * (10 + number))
        self.source.put("bad.wav", b"bad")
        self.source.unopened["link"] = ("outside_root", "leads outside the source root")

    def yaml(self, section=None, **changes):
        if section:
            changes = {section: {**self.sections.get(section, {}), **changes}}
        self.sections |= changes

    @property
    def config(self):
        self.project.write_yaml(**self.sections)
        return self.project.config()

    def scan(self):
        opened = []
        tables = UserTables(self.stamps, lambda: opened.append(1) or TableInMemory(self.table), lambda: self.excluded)
        found = refresh_catalog(self.config, self.source, tables, self.output, fake_runtime(**self.runtime))
        self.found = found
        return bool(opened)

    def agree(self):
        """Check that what was returned and is stored is what a scan from nothing finds."""
        scan, header = self.found
        fresh = LocalStorage(self.output.root.parent / "fresh")
        other, _ = update_catalog(
            self.config, self.source, self.table, fresh, fake_runtime(**self.runtime), excluded=self.excluded
        )
        assert {name: getattr(scan, name) for name in FIELDS} == {name: getattr(other, name) for name in FIELDS}
        assert scan.rejected.equals(other.rejected)
        assert scan.recordings.equals(other.recordings)
        assert header == read_header(self.output)
        assert header.fingerprints == read_header(fresh).fingerprints
        assert self.output.read(REJECTED_PATH) == self.output.read(header.totals.rejected.path)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture(scope="module")
def first_folder(tmp_path_factory):
    """The folder of a world, with a copy of what a first scan stores."""
    folder = tmp_path_factory.mktemp("first")
    first = World(folder)
    assert first.scan()
    first.output.root.rename(folder / "kept")
    return folder


@pytest.fixture
def scanned(first_folder):
    """A world after its first scan."""
    for made in ("store", "fresh"):
        shutil.rmtree(first_folder / made, ignore_errors=True)
    shutil.copytree(first_folder / "kept", first_folder / "store")
    return World(first_folder)


def part(world, kind):
    """The last part of a kind: a scan that is not made reads the first one of a partition."""
    return world.output.root / [one.path for one in read_header(world.output).parts() if kind in one.path][-1]


def spoil(path, *, shorter):
    """Cut a file, or change its last byte."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] if shorter else data[:-1] + bytes([data[-1] ^ 1]))


def unread(world):
    world.source.unreadable = {"d.wav"}
    world.source.put("d.wav", b"changed")
    world.scan()
    world.source.unreadable = set()


def wait(world, *, goes):
    """A file is still being written during a scan; then time passes, or it is gone."""
    world.source.put("new.wav", b"young", NOW_NS - SECOND_NS)
    world.scan()
    if goes:
        del world.source.files["new.wav"]
    else:
        world.runtime["clock"] = lambda: NOW_NS + 60 * SECOND_NS


def rewrite(world, age_seconds):
    """The table was written again in the moment in which its stamp was taken, so that the stamp stays as it is."""
    stamp = NOW_NS - round(age_seconds * SECOND_NS)
    world.stamps = {"m.csv": FileStamp(1, OLD_NS, stamp)}
    world.scan()
    world.table = world.table.with_columns(n=pl.col("n") + 1)


MUST = {
    "a file is new": lambda w: w.source.put("e.wav", b"12345"),
    "a file is gone": lambda w: w.source.files.pop("d.wav"),
    "a file has another size": lambda w: w.source.put("d.wav", b"1"),
    "a file has another time": lambda w: w.source.put("d.wav", b"1" * 13, OLD_NS + 1),
    "files have other change times": lambda w: setattr(w.source, "ctime_ns", OLD_NS + 1),
    "an entry cannot be opened for another reason": lambda w: w.source.unopened.update(link=("unreadable", "a loop")),
    "an entry that cannot be opened is new": lambda w: w.source.unopened.update(other=("unreadable", "a loop")),
    "a file could not be read": unread,
    "a file waits to settle": lambda w: wait(w, goes=False),
    "a file that waited to settle is gone": lambda w: wait(w, goes=True),
    "the probe has another version": lambda w: w.runtime.update(probe_version=lambda: "2"),
    "the source is in another place": lambda w: setattr(w.source, "uri", "elsewhere"),
    "source.min_seconds": lambda w: w.yaml("source", min_seconds=1.05),
    "source.settle_seconds": lambda w: w.yaml("source", settle_seconds=9),
    "source.samples": lambda w: w.yaml("source", samples="rows"),
    "source.where": lambda w: w.yaml("source", where="n = 1"),
    "source.columns": lambda w: w.yaml("source", columns={"key": "n"}),
    "source.key_form": lambda w: w.yaml("source", key_form="slug"),
    "source.duplicates": lambda w: w.yaml("source", duplicates="drop"),
    "source.json": lambda w: w.yaml("source", json="minimal"),
    "source.table": lambda w: w.yaml("source", table={"types": {"n": "text"}}),
    "source.schema": lambda w: w.yaml("source", schema="tests.catalog.stored.test_unchanged:SCHEMA"),
    "audio.segment_seconds": lambda w: w.yaml("audio", segment_seconds=0.5),
    "exclude": lambda w: w.yaml(exclude=["d"]),
    "group_by": lambda w: w.yaml(group_by="n"),
    "splits": lambda w: w.yaml(splits={"train": 0.5, "test": 0.5}),
    "shards.partitions": lambda w: w.yaml("shards", partitions={"train": 5, "test": 1}),
    "the table has another stamp": lambda w: w.stamps.update({"m.csv": FileStamp(2, OLD_NS, OLD_NS)}),
    "the table cannot be read any more": lambda w: w.stamps.update({"m.csv": None}),
    "a table of keys is new": lambda w: w.stamps.update({"keys.csv": FileStamp(2, OLD_NS, OLD_NS)}),
    "the table may change without another stamp": lambda w: rewrite(w, 1),
    "there is no header": lambda w: w.output.delete(HEADER_PATH),
    "the header is cut off": lambda w: spoil(w.output.root / HEADER_PATH, shorter=True),
    "the header is damaged": lambda w: spoil(w.output.root / HEADER_PATH, shorter=False),
    "a part of a partition is gone": lambda w: part(w, ".rows-").unlink(),
    "the stamps are gone": lambda w: part(w, "stamps").unlink(),
    "the durations are cut off": lambda w: spoil(part(w, "durations"), shorter=True),
    "the rejects are gone": lambda w: part(w, "rejected-").unlink(),
}


def keep_part(world):
    facts = pl.DataFrame(schema=FACT_SCHEMA)
    ScanCheckpoint(world.output).add(facts, "1")


def leave_old(world):
    old = world.output.root / PARTS_FOLDER / "train-0000.rows-000000000000.parquet"
    old.write_bytes(b"old")
    os.utime(old, (0, 0))


def later(world):
    world.runtime["clock"] = lambda: NOW_NS + 3600 * SECOND_NS


NEED_NOT = {
    "nothing": lambda w: None,
    "time has passed": later,
    "the files are listed in another order": lambda w: w.source.put("a.wav", w.source.files.pop("a.wav").content),
    "an interrupted scan left a checkpoint": keep_part,
    "a part that no header names": leave_old,
    "the copy of the rejects is gone": lambda w: w.output.delete(REJECTED_PATH),
}

SCHEMA = None


@pytest.mark.parametrize("name", MUST)
def test_a_scan_is_made_if_anything_has_changed_that_can_reach_the_catalog(scanned, name):
    world = scanned
    assert not world.scan()
    MUST[name](world)
    if name == "source.schema":
        assert unchanged.scan_inputs(world.config, "x", world.stamps, fake_runtime()) == ""
        return
    assert world.scan()
    world.agree()


@pytest.mark.parametrize("name", NEED_NOT)
def test_no_scan_is_made_if_it_would_find_the_same(world, name):
    world.scan()
    NEED_NOT[name](world)
    before = world.output.read(HEADER_PATH)
    world.source.num_lists, world.source.opened = 0, []
    assert not world.scan()
    world.agree()
    assert (world.source.num_lists, world.output.read(HEADER_PATH)) == (2, before)  # the second is that of `agree`
    assert not list(world.output.list(CHECKPOINT_FOLDER))
    assert {entry.path for entry in world.output.list(PARTS_FOLDER)} == {one.path for one in world.found[1].parts()}


def test_the_source_is_listed_once_if_a_scan_is_made_after_all(world):
    world.scan()
    world.source.put("e.wav", b"12345")
    world.source.num_lists = 0
    assert world.scan()
    assert world.source.num_lists == 1


def test_a_scan_is_made_by_other_code(world, monkeypatch):
    world.scan()
    monkeypatch.setattr(unchanged, "code_digest", lambda: "other")
    assert world.scan()
    assert not world.scan()


@pytest.mark.parametrize("kind", ["stamps", "durations", "rejected-", ".files-"])
@pytest.mark.parametrize("shorter", [False, True])
def test_a_damaged_part_is_left_to_the_scan(world, kind, shorter):
    """Except a part of a partition that has its size: the run of the partition compares its digest."""
    world.scan()
    spoil(part(world, kind), shorter=shorter)
    if kind == ".files-" and not shorter:
        assert not world.scan()
    elif kind in {"rejected-", ".files-"}:
        with pytest.raises(FormatError, match="is damaged"):
            world.scan()
    else:
        assert world.scan()


def test_rejects_of_a_build_stay(world):
    """They are stored after the scan, and the next scan would keep them."""
    world.scan()
    stored = existing_catalog(world.output)
    name, row = next((name, rows.row(0, named=True)) for name, rows in stored.partitions())
    refusal = ManifestRejection(path=row["path"], key=row["key"], code="undecodable", reason="no audio")
    manifest = Manifest(partition=name, source="", wanted="", layout={}, shards=(), refused=(refusal,))
    store_decode_rejects(stored, {name: NumberedManifest(1, manifest)})
    assert not world.scan()
    assert world.found[0].rejected.filter(pl.col("origin") == "decode").height == 1


@dataclass(frozen=True)
class Counting(LocalStorage):
    """A folder that counts requests."""

    requests: list = field(default_factory=list)

    def read(self, path):
        self.requests.append(path)
        return super().read(path)

    def list(self, prefix=""):
        self.requests.append(prefix)
        return super().list(prefix)


def test_the_requests_of_an_unchanged_catalog_do_not_grow_with_its_partitions(tmp_path):
    counts = {}
    for number in (10, 100):
        world = World(tmp_path / str(number))
        world.yaml(splits={"train": 1.0}, shards={"partitions": {"train": number}})
        for recording in range(3 * number):
            world.source.put(f"{recording}.wav", b"1" * (20 + recording))
        world.scan()
        world.output = Counting(world.output.root)
        assert not world.scan()
        counts[number] = len(world.output.requests)
    assert counts[10] == counts[100] < 15
