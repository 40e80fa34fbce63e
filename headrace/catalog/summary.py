"""The summary of a catalog: fingerprints, file stamps and counts, in a file that is read without polars.

A sensor reads the summary instead of the tables, because polars would cost a code server 65 MB. This module also has
the paths of all files of a catalog. `headrace.catalog.update` writes the summary. `read_summary` ignores a summary that
does not belong to the stored tables, or was made with other settings or by another version; the next scan replaces it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.catalog.listing import PATH_DIGEST, SourceStamps
from headrace.config.dataset import DatasetConfig
from headrace.errors import FormatError, NotFoundError
from headrace.format.tables import pack, unpack
from headrace.stores.storage import Storage

CATALOG_FOLDER = "catalog/"
CATALOG_PATH = "catalog/catalog.parquet"
REJECTED_PATH = "catalog/rejected.parquet"
SUMMARY_PATH = "catalog/catalog.summary"
SUMMARY_FORMAT = 1

_FORMAT_NOTE = "headrace_catalog_summary"
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CatalogSummary:
    """Fingerprints, counts and file stamps of a catalog.

    Attributes:
        digest: fingerprint of all recordings (`Catalog.digest`).
        seconds: total duration of all recordings.
        fingerprints: partition → fingerprint of its recordings, split by split.
        grouping: the settings that determine the partitions, see `grouping_of`.
        reasons: rejection code → number of rejected files and rows.
        stamps: stamps of all files of the scan, except those left for the next scan.
        tables: path of each table → SHA-256 (hex) of its bytes.
    """

    digest: str
    seconds: float
    fingerprints: Mapping[str, str]
    grouping: str
    reasons: Mapping[str, int]
    stamps: SourceStamps
    tables: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """The content of the summary file. Equal summaries give equal bytes."""
        arrays: dict[str, np.ndarray[Any, Any]] = {
            "path_digests": self.stamps.paths.view(np.uint8).reshape(-1, PATH_DIGEST.itemsize),
            "num_bytes": self.stamps.num_bytes,
            "mtime_ns": self.stamps.mtime_ns,
        }
        notes = {
            _FORMAT_NOTE: str(SUMMARY_FORMAT),
            "catalog": self.digest,
            "seconds": repr(self.seconds),
            "fingerprints": json.dumps(dict(self.fingerprints)),
            "grouping": self.grouping,
            "reasons": json.dumps(dict(self.reasons)),
            "tables": json.dumps(dict(self.tables)),
        }
        return pack(arrays, notes)

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "CatalogSummary":
        """Read the content of a summary file.

        Raises:
            FormatError: the content is damaged, or has another format version.
        """
        arrays, notes = unpack(blob, name)
        found = notes.get(_FORMAT_NOTE)
        if found != str(SUMMARY_FORMAT):
            raise FormatError(f"{name}: expected format {SUMMARY_FORMAT}, found {found}; scan the source again")
        try:
            paths = np.frombuffer(arrays["path_digests"].tobytes(), PATH_DIGEST)
            return cls(
                notes["catalog"],
                float(notes["seconds"]),
                json.loads(notes["fingerprints"]),
                notes["grouping"],
                json.loads(notes["reasons"]),
                SourceStamps(paths, arrays["num_bytes"], arrays["mtime_ns"]),
                json.loads(notes["tables"]),
            )
        except (KeyError, ValueError) as error:
            raise FormatError(f"{name}: incomplete summary ({error}); scan the source again") from error


def grouping_of(config: DatasetConfig) -> str:
    """All settings that determine the partition of a recording, as one line of JSON."""
    partitioning = config.partitioning()
    source = config.source
    return json.dumps(
        [dict(partitioning.splits), dict(partitioning.partitions), config.group_by, source.duplicates, source.samples]
    )


def read_summary(output: Storage, config: DatasetConfig) -> CatalogSummary | None:
    """The summary of the stored catalog; None if there is no summary for this catalog and these settings.

    That is so before the first scan, after a change of splits or partitions, if another version wrote the catalog, and
    after a crash between writing the tables and the summary. The next scan writes a new summary.
    """
    try:
        summary = CatalogSummary.from_bytes(output.read(SUMMARY_PATH), f"{output.uri}/{SUMMARY_PATH}")
        tables = {path: _sha256(output, path) for path in (CATALOG_PATH, REJECTED_PATH)}
    except (NotFoundError, FormatError):
        return None
    return summary if summary.grouping == grouping_of(config) and summary.tables == tables else None


def _sha256(storage: Storage, path: str) -> str:
    digest = hashlib.sha256()
    with storage.open(path) as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()
