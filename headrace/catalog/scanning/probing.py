"""Reads the new and changed files of a source: the digest of each file, and the facts of its header.

A file that changes while it is read is left for the next scan. Where files are read is decided by `FileWorkers`.
Decisions that depend on settings, metadata or other files are in `headrace.catalog.judging.acceptance`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol

import polars as pl

from headrace.audio import AudioInfo
from headrace.catalog.rows.schemas import AUDIO_SCHEMA, FACT_SCHEMA, STAMP_SCHEMA
from headrace.catalog.scanning.scan_workers import FileWorkers
from headrace.errors import AudioError, FileChangedError, UnsafePathError
from headrace.format.rejects import RejectReason
from headrace.sources.listing import FileStamp
from headrace.sources.sources import Source

_SLICE_ROWS = 10_000
_MOST_NOT_KEPT = 100_000  # files: some ten megabytes of facts
_NO_AUDIO = (None,) * len(AUDIO_SCHEMA)


class Probe(Protocol):
    """A function that reads the header of an audio file, such as `headrace.audio.probe`. Raises `AudioError`."""

    def __call__(self, file: BinaryIO, *, num_bytes: int) -> AudioInfo:
        """Read the header of an open file."""


class Keeper(Protocol):
    """Keeps facts while files are read, such as `headrace.catalog.scanning.checkpoint.ScanCheckpoint`."""

    @property
    def is_due(self) -> bool:
        """Whether it is time to keep what was found."""

    def add(self, facts: pl.DataFrame, probe_version: str) -> bool:
        """Keep facts of files (`FACT_SCHEMA`). False if that failed."""


class ListedFile(NamedTuple):
    """A file as the source listed it."""

    path: str
    num_bytes: int
    mtime_ns: int
    ctime_ns: int


class FileExamination(NamedTuple):
    """Result of examining a file: the rest of its row of `FACT_SCHEMA`; None if it changed since it was listed."""

    file: ListedFile
    found: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Probing:
    """Options for reading files.

    Attributes:
        probe: reads a header.
        probe_version: version of everything that the probe's results depend on.
        workers: read the files.
        progress: called after each file with (files read, files to read), in the caller's thread.
        keeper: keeps what was found, from time to time and if the reading is interrupted.
    """

    probe: Probe
    probe_version: str
    workers: FileWorkers
    progress: Callable[[int, int], None]
    keeper: Keeper | None = None


def probe_files(
    source: Source,
    to_open: Iterable[pl.DataFrame],
    num_files: int,
    how: Probing,
    store: Callable[[pl.DataFrame], None],
) -> pl.DataFrame:
    """Read every file of `to_open` once.

    Args:
        source: the source of the files.
        to_open: tables of paths with their stamps from the listing (`STAMP_SCHEMA`).
        num_files: number of their rows.
        how: how files are read.
        store: called with facts of some files (`FACT_SCHEMA`), in any order.

    Returns:
        The files that changed meanwhile (`STAMP_SCHEMA`).
    """
    findings = _Findings(how, store)
    with closing(how.workers.map(partial(examine, source, how.probe), _files(to_open))) as results:
        try:
            for num_done, examined in enumerate(results, 1):
                findings.add(examined)
                how.progress(num_done, num_files)
        except BaseException:  # also Ctrl-C: the next scan goes on from here
            findings.keep()
            raise
    return findings.result()


def still_valid(facts: pl.DataFrame, made_by: str, probe_version: str) -> pl.DataFrame:
    """Facts (`FACT_SCHEMA`) that one version of the probe found and that are valid for another.

    After a change of the version, rejections are discarded, and so are facts of lossy formats (which have no bits per
    sample): their length is counted by the probe, whereas the length of PCM formats is in the header.
    """
    if made_by == probe_version:
        return facts
    return facts.filter(pl.col("code").is_null() & pl.col("bits_per_sample").is_not_null())


@dataclass(slots=True)
class _Findings:
    """Collects what is found in files, as tables: no Python object per file lasts long."""

    how: Probing
    store: Callable[[pl.DataFrame], None]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    changing: list[ListedFile] = field(default_factory=list)
    not_kept: list[pl.DataFrame] = field(default_factory=list)
    num_new: int = 0  # files in tables since it was last tried to keep them

    def add(self, examined: FileExamination) -> None:
        """Add one file; keep what was found if it is time, or if it is much."""
        if examined.found is None:
            self.changing.append(examined.file)
        else:
            self.rows.append((*examined.file, *examined.found))
        if len(self.rows) >= _SLICE_ROWS:
            self._pack()
        if self.how.keeper is not None and (self.num_new >= _MOST_NOT_KEPT or self.how.keeper.is_due):
            self.keep()

    def keep(self) -> None:
        """Keep what was found since the last time."""
        self._pack()
        new, self.num_new = self.not_kept, 0
        if self.how.keeper is not None and new and self.how.keeper.add(pl.concat(new), self.how.probe_version):
            self.not_kept = []

    def result(self) -> pl.DataFrame:
        """Store what is left. Returns the files that changed."""
        self._pack()
        return pl.DataFrame(self.changing, schema=STAMP_SCHEMA, orient="row")

    def _pack(self) -> None:
        if self.rows:
            facts = pl.DataFrame(self.rows, schema=FACT_SCHEMA, orient="row")
            self.store(facts)
            if self.how.keeper is not None:
                self.not_kept.append(facts)
                self.num_new += facts.height
            self.rows = []


def _files(to_open: Iterable[pl.DataFrame]) -> Iterator[ListedFile]:
    for piece in (piece for table in to_open for piece in table.iter_slices(_SLICE_ROWS)):
        yield from (ListedFile(*row) for row in piece.select(*STAMP_SCHEMA).iter_rows())


def examine(source: Source, probe: Probe, file: ListedFile) -> FileExamination:
    """Read one file."""
    return FileExamination(file, _examine(source, file.path, FileStamp(*file[1:]), probe))


def _examine(source: Source, path: str, listed: FileStamp, probe: Probe) -> tuple[Any, ...] | None:
    try:
        with source.open_digested(path, listed) as opened:
            found = (opened.digest, *_probed(opened.file, listed.num_bytes, probe))
    except (FileNotFoundError, FileChangedError):
        return None
    except UnsafePathError:
        return (None, *_NO_AUDIO, RejectReason.OUTSIDE_ROOT, "leads outside the source root")
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}; check permissions and the disk"
        return (None, *_NO_AUDIO, RejectReason.UNREADABLE, reason)
    return found


def _probed(file: BinaryIO, num_bytes: int, probe: Probe) -> tuple[Any, ...]:
    try:
        info = probe(file, num_bytes=num_bytes)
    except AudioError as error:
        return (*_NO_AUDIO, str(error.reason), str(error))
    return (*(getattr(info, name) for name in AUDIO_SCHEMA), None, None)
