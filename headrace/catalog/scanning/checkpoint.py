"""Keeps what a scan has read, so that the next scan goes on where a killed one was.

A scan writes a part about once a minute, and after many files, with the facts of the files that it read since the last
part. Parts are only ever added, and each is written atomically. A part is used for files whose size and modification
time are unchanged, like the catalog itself. When the catalog is stored, all parts are deleted.

Parts are a convenience and not data: a part that is damaged or cannot be written costs reading its files again, and a
line in the log.
"""

import io
import logging
import secrets
import time
from collections.abc import Callable, Iterator

import polars as pl

from headrace.catalog.rows.schemas import FACT_SCHEMA
from headrace.catalog.scanning.probing import still_valid
from headrace.errors import FormatError, NotFoundError, StorageError
from headrace.stores.storage import Storage

CHECKPOINT_FOLDER = "catalog/.scan/"
"""Beside the catalog, hidden from listings of local folders."""

_SECONDS = 60.0
_FORMAT = "1"
_FORMAT_NOTE = "headrace.format"
_PROBE_NOTE = "headrace.probe_version"
_log = logging.getLogger(__name__)


class ScanCheckpoint:
    """The parts of a checkpoint below an output.

    Several scans may write parts at the same time. One that ends deletes the parts of all: at worst, files that the
    others have read are read again if these are killed.
    """

    def __init__(
        self, output: Storage, *, seconds: float = _SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing is read or written.

        Args:
            output: the output of the data set.
            seconds: the least time between two parts.
            clock: returns the current time in seconds.
        """
        self._output, self._seconds, self._clock = output, seconds, clock
        self._name = secrets.token_hex(4)
        self._num_parts = 0
        self._last = clock()

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next part."""
        return self._clock() - self._last >= self._seconds

    def facts(self, probe_version: str) -> pl.DataFrame:
        """Facts in all parts that are valid for this version of the probe (`FACT_SCHEMA`).

        A path may have several rows, with different stamps.
        """
        return pl.concat([pl.DataFrame(schema=FACT_SCHEMA), *self.tables(probe_version)])

    def tables(self, probe_version: str) -> Iterator[pl.DataFrame]:
        """Facts that are valid for this version of the probe, as of `facts`, part by part."""
        for entry in self._output.list(CHECKPOINT_FOLDER):
            yield self._read(entry.path, probe_version)

    def add(self, facts: pl.DataFrame, probe_version: str) -> bool:
        """Write a part.

        Args:
            facts: facts of files (`FACT_SCHEMA`); files that could not be read are left out.
            probe_version: version of the probe that found them.

        Returns:
            False if the output could not be written. The scan can go on, and try again later.
        """
        self._last = self._clock()
        file = io.BytesIO()
        readable = facts.filter(pl.col("sha256").is_not_null())
        readable.write_parquet(file, metadata={_FORMAT_NOTE: _FORMAT, _PROBE_NOTE: probe_version})
        try:
            self._output.write(f"{CHECKPOINT_FOLDER}{self._name}-{self._num_parts:06d}.parquet", file.getvalue())
        except StorageError as error:
            _log.warning("the state of the scan could not be kept, and the scan goes on: %s", error)
            return False
        self._num_parts += 1
        return True

    def clear(self) -> None:
        """Delete all parts."""
        for entry in list(self._output.list(CHECKPOINT_FOLDER)):
            self._output.delete(entry.path)

    def _read(self, path: str, probe_version: str) -> pl.DataFrame:
        """The facts of one part; an empty table if it is damaged, or another scan has deleted it."""
        nothing = pl.DataFrame(schema=FACT_SCHEMA)
        try:
            data = self._output.read(path)
        except NotFoundError:
            return nothing
        try:
            facts, made_by = _decoded(data)
        except (FormatError, pl.exceptions.PolarsError, OSError) as error:
            _log.warning("%s/%s is ignored, and its files are read again: %s", self._output.uri, path, error)
            return nothing
        return still_valid(facts, made_by, probe_version)


def _decoded(data: bytes) -> tuple[pl.DataFrame, str]:
    """The facts of a part, and the version of the probe that found them."""
    file = io.BytesIO(data)
    notes = pl.read_parquet_metadata(file)
    file.seek(0)
    facts = pl.read_parquet(file)
    if notes.get(_FORMAT_NOTE) != _FORMAT or dict(facts.schema) != FACT_SCHEMA:
        raise FormatError(f"expected the facts of a scan in format {_FORMAT}")
    return facts, notes.get(_PROBE_NOTE, "")
