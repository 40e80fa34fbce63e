"""What comparing takes of a catalog, in a file beside its tables that numpy alone reads.

Owns that file, the names of all files of a catalog, and whether the summary is true of the tables that lie beside it. A
sensor's tick reads it instead of the tables: polars would cost a code server 65 MB. It is made of a catalog by
`headrace.catalog_update`; where it is missing, or of other tables, of another layout or another version, there is none,
and the next scan makes it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.config import DatasetConfig
from headrace.errors import FormatError, NotFoundError
from headrace.stamps import PATH_DIGEST, Stamps
from headrace.storage import Storage
from headrace.tables import pack, unpack

CATALOG_FOLDER = "catalog/"
CATALOG_PATH = "catalog/catalog.parquet"
REJECTED_PATH = "catalog/rejected.parquet"
SUMMARY_PATH = "catalog/catalog.summary"
SUMMARY_FORMAT = 1

_FORMAT_NOTE = "headrace_catalog_summary"
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CatalogSummary:
    """A catalog in brief.

    Attributes:
        digest: fingerprint of all recordings (`Catalog.digest`).
        seconds: length of all recordings together.
        fingerprints: partition → fingerprint of its recordings, in the layout's order.
        grouping: what decided the partitions, see `grouping_of`.
        reasons: code → how many files and rows were refused for it.
        stamps: every file that the scan listed, but for those that it left to the next one.
        tables: path → SHA-256 (hex) of each table's bytes.
    """

    digest: str
    seconds: float
    fingerprints: Mapping[str, str]
    grouping: str
    reasons: Mapping[str, int]
    stamps: Stamps
    tables: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """The file. Equal summaries give equal bytes."""
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
        """Read a summary.

        Raises:
            FormatError: damaged, or of another format.
        """
        arrays, notes = unpack(blob, name)
        found = notes.get(_FORMAT_NOTE)
        if found != str(SUMMARY_FORMAT):
            raise FormatError(f"{name}: format {SUMMARY_FORMAT} expected, found {found}; scan the source again")
        try:
            paths = np.frombuffer(arrays["path_digests"].tobytes(), PATH_DIGEST)
            return cls(
                notes["catalog"],
                float(notes["seconds"]),
                json.loads(notes["fingerprints"]),
                notes["grouping"],
                json.loads(notes["reasons"]),
                Stamps(paths, arrays["num_bytes"], arrays["mtime_ns"]),
                json.loads(notes["tables"]),
            )
        except (KeyError, ValueError) as error:
            raise FormatError(f"{name}: not a whole summary ({error}); scan the source again") from error


def grouping_of(config: DatasetConfig) -> str:
    """All that decides which partition a recording is in, as one line of JSON."""
    layout = config.layout()
    return json.dumps([dict(layout.splits), dict(layout.partitions), config.group_by])


def read_summary(output: Storage, config: DatasetConfig) -> CatalogSummary | None:
    """The summary of the stored catalog.

    None where it says nothing of this catalog and these settings: before the first scan, after a change of the layout,
    where another version wrote the catalog, after a kill between the tables and the summary. A scan mends all of it.
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
