"""Fake sources in memory and a fake probe, for tests of the scan."""

import contextlib
import io
from dataclasses import dataclass, field

import polars as pl

from headrace.audio import AudioInfo
from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.judging.validation import check_catalog
from headrace.catalog.rows.recordings import combined_digest
from headrace.catalog.scanning.scan import scan
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.catalog.stored.partitions import PARTITION, group_names
from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.stored.storing import store_catalog
from headrace.config.partitioning import assign_partitions
from headrace.config.source import Duplicates
from headrace.errors import AudioError, FileChangedError
from headrace.format.rejects import RejectSubject
from headrace.sources.content_digests import read_digest
from headrace.sources.listing import FileStamp, Listing
from headrace.stores.storage import open_storage

NOW_NS = 1_800_000_000_000_000_000
OLD_NS = NOW_NS - 3600 * 1_000_000_000
AT_ONCE = CatalogSettings(settle_seconds=0)


@dataclass
class FakeFile:
    content: bytes
    mtime_ns: int = OLD_NS


@dataclass
class FakeSource:
    """A source of files in a dictionary. Counts opened files; `on_open` runs while a file is being read."""

    files: dict[str, FakeFile] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    on_open: dict = field(default_factory=dict)
    uri: str = "fake"

    def put(self, path, content=b"wav", mtime_ns=OLD_NS):
        self.files[path] = FakeFile(content, mtime_ns)

    def list(self):
        found = Listing()
        for path, file in self.files.items():
            found.add(path, FileStamp(len(file.content), file.mtime_ns))
        yield found

    @contextlib.contextmanager
    def open(self, path, stamp):
        self._check(path, stamp)
        self.opened.append(path)
        file = io.BytesIO(self.files[path].content)
        self.on_open.get(path, lambda: None)()
        yield file
        self._check(path, stamp)

    def open_digested(self, path, stamp):
        return read_digest(self.open(path, stamp))

    def _check(self, path, stamp):
        if path not in self.files:
            raise FileNotFoundError(path)
        if stamp != FileStamp(len(self.files[path].content), self.files[path].mtime_ns):
            raise FileChangedError(path)


def fake_probe(file, *, num_bytes):
    """One frame per byte at 10 Hz; content that starts with `bad` is rejected."""
    content = file.read()
    if content.startswith(b"bad"):
        raise AudioError("undecodable", "not audio")
    return AudioInfo("WAV", "PCM_16", num_bytes, 10, 1, 16)


def fake_runtime(**changes):
    settings = {
        "clock": lambda: NOW_NS,
        "sleep": lambda seconds: None,
        "workers": ReadingThreads(2),
        "probe": fake_probe,
        "probe_version": lambda: "1",
    }
    return ScanRuntime(**settings | changes)


def with_partitions(recordings, partitioning, group_by, duplicates=Duplicates.KEEP):
    """Add the column `partition` to a recordings table."""
    groups = group_names(recordings, group_by, duplicates)
    return recordings.with_columns(pl.Series(PARTITION, assign_partitions(groups, partitioning), dtype=pl.String))


def fingerprints(divided, partitioning):
    """Fingerprint of every partition of a table from `with_partitions`, empty ones included."""
    digests = {name: divided.filter(pl.col(PARTITION) == name) for name in partitioning.partition_keys()}
    return {name: combined_digest(rows["recording_digest"].sort()) for name, rows in digests.items()}


def stored(catalog, config):
    """Store a catalog in memory."""
    output = open_storage("memory://")
    return StoredCatalog(output, store_catalog(output, catalog, config))


def look(source, previous=None, metadata=None, asked=AT_ONCE, **runtime):
    """Scan a fake source and check what must hold after every scan."""
    result = scan(source, previous, asked, metadata, fake_runtime(**runtime))
    check(result)
    return result


def check(result):
    check_catalog(result.recordings, result.rejected)
    num_rejected = result.rejected.filter(pl.col("origin") == RejectSubject.FILE).height
    assert result.num_found == result.recordings.height + num_rejected + result.num_unsettled
    assert result.num_waiting_rows == 0


def codes(result, origin=RejectSubject.FILE):
    rows = result.rejected.filter(pl.col("origin") == origin)
    return dict(zip(rows["path"], rows["code"], strict=True))


def three_files():
    fake = FakeSource()
    for name in ("a.wav", "b/c.wav", "b/d.wav"):
        fake.put(name, f"content of {name}".encode())
    return fake
