"""The header of a catalog: names the parts of the catalog, and has what sensors and runs need of all of them.

A catalog is stored in immutable parts, whose names contain the digest of their bytes. The header `catalog.jsonl` names
the parts; replacing it replaces the whole catalog at once. Its first line is about the whole catalog, each further line
about one partition, so that the run of a partition parses two lines. This module needs no polars, which would cost a
code server 65 MB. `headrace.catalog.stored.parts` reads and writes the parts.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from headrace.catalog.stored.column_header import TABLES_FOLDER, header_path, read_table_header, table_folder
from headrace.catalog.stored.header_lines import PARTS_FOLDER, CatalogTotals, Part
from headrace.checksums import crc32
from headrace.config.dataset import DatasetConfig
from headrace.config.source import SampleKind
from headrace.errors import CatalogError, FormatError, NotFoundError
from headrace.format.manifests.manifests import check_partition
from headrace.format.rejects import RejectSubject, counted
from headrace.format.tables import checked, pack, packed_pieces, unpack
from headrace.format.typed_json import json_value, typed
from headrace.sources.listing import PATH_DIGEST, SourceStamps
from headrace.stores.storage import Storage, StoredObject

CATALOG_FOLDER = "catalog/"
HEADER_PATH = "catalog/catalog.jsonl"
REJECTED_PATH = "catalog/rejected.parquet"
"""A copy of the newest table of rejects, for people."""
CATALOG_FORMAT = 3
SCAN_AGAIN = "materialize the asset `catalog` again, or run `headrace build`"

_VERSION = "headrace_catalog"
_CHECKSUM = "crc32"
_NO_CHECKSUM = "00000000"
_STAMPS_VERSION = "headrace_catalog_stamps"
_DURATIONS_VERSION = "headrace_catalog_durations"


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """One partition of a catalog.

    Attributes:
        partition: its name, for example `train-0003`.
        fingerprint: digest of its rows, see `headrace.catalog.rows.recordings.combined_digest`.
        content: digest of everything that its parts hold, by which a scan finds that they need not be written again.
        num_rows: number of its rows.
        num_samples: number of samples that the rows give with the settings of the scan.
        seconds: duration of all rows.
        num_bytes: size of the files that the rows name.
        files: the facts of these files; None for an empty partition.
        rows: the rows; None for an empty partition.
    """

    partition: str
    fingerprint: str
    content: str
    num_rows: int
    num_samples: int
    seconds: float
    num_bytes: int
    files: Part | None
    rows: Part | None


@dataclass(frozen=True, slots=True)
class CatalogHeader:
    """The header of a catalog.

    Attributes:
        totals: what concerns the whole catalog.
        partitions: partition → its entry, split by split, empty partitions included.
    """

    totals: CatalogTotals
    partitions: Mapping[str, PartitionEntry]

    @property
    def digest(self) -> str:
        """See `CatalogTotals.digest`."""
        return self.totals.digest

    @property
    def content(self) -> str:
        """A digest of all parts: of everything that can be read of the catalog besides its header."""
        return hashlib.sha256("".join(part.sha256 for part in self.parts()).encode()).hexdigest()

    @property
    def fingerprints(self) -> dict[str, str]:
        """Partition → fingerprint of its rows."""
        return {name: entry.fingerprint for name, entry in self.partitions.items()}

    @property
    def num_rows(self) -> int:
        """Number of rows of all partitions."""
        return sum(entry.num_rows for entry in self.partitions.values())

    @property
    def seconds(self) -> float:
        """Duration of all rows."""
        return sum(entry.seconds for entry in self.partitions.values())

    @property
    def num_bytes(self) -> int:
        """Size of all files with rows."""
        return sum(entry.num_bytes for entry in self.partitions.values())

    @property
    def reasons(self) -> dict[str, int]:
        """Rejection code → number of rejected files and rows, the most frequent first."""
        codes: Counter[str] = Counter()
        for _, code, number in self.totals.rejects:
            codes[code] += number
        return dict(counted(codes.elements()))

    @property
    def num_rejected(self) -> int:
        """Number of rejected files and rows."""
        return sum(number for *_, number in self.totals.rejects)

    @property
    def samples(self) -> SampleKind:
        """Kind of samples: recordings or rows."""
        try:
            return SampleKind(json_value(self.totals.grouping)[-1])
        except (ValueError, LookupError, TypeError) as error:
            raise FormatError(f"the header of the catalog has an invalid grouping ({error}); {SCAN_AGAIN}") from error

    @property
    def num_rejected_rows(self) -> int:
        """Number of rejected rows of the metadata table."""
        return sum(number for origin, _, number in self.totals.rejects if origin == RejectSubject.METADATA)

    @property
    def num_rejected_files(self) -> int:
        """Number of rejected files that count as found."""
        return sum(number for origin, _, number in self.totals.rejects if origin == RejectSubject.FILE)

    def parts(self) -> Iterator[Part]:
        """All parts of the catalog."""
        yield self.totals.rejected
        yield self.totals.stamps
        if self.totals.scan.durations is not None:
            yield self.totals.scan.durations
        for entry in self.partitions.values():
            yield from (part for part in (entry.files, entry.rows) if part is not None)

    def to_bytes(self) -> bytes:
        """The content of the file. Equal headers give equal bytes."""
        first = {_VERSION: CATALOG_FORMAT, _CHECKSUM: _NO_CHECKSUM, **asdict(self.totals)}
        lines = [first, *map(asdict, self.partitions.values())]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        return text.replace(_NO_CHECKSUM.encode(), _crc32(text), 1)

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "CatalogHeader":
        """Parse the content of a header.

        Raises:
            FormatError: the content is damaged, or has another format version.
        """
        return _parsed(blob, name)


@lru_cache(maxsize=1)  # a build reads one header many times
def _parsed(blob: bytes, name: str) -> CatalogHeader:
    totals, lines = _checked(blob, name)
    entries = (_entry(line, name) for line in lines.splitlines() if line)
    return CatalogHeader(totals, {entry.partition: entry for entry in entries})


def partition_in(blob: bytes, partition: str, name: str) -> tuple[CatalogTotals, PartitionEntry]:
    """Parse the entry of one partition in the content of a header. Other partitions are not parsed.

    Raises:
        FormatError: the content is damaged, or has another format version.
        CatalogError: the catalog has no such partition.
    """
    totals, lines = _checked(blob, name)
    opening = f'\n{{"partition": {json.dumps(partition)}, '.encode()
    begin = lines.find(opening) + 1
    if not begin:
        raise CatalogError(f"{name}: the catalog has no partition {partition!r}; {SCAN_AGAIN}")
    return totals, _entry(lines[begin : lines.find(b"\n", begin)], name)


def read_header(output: Storage) -> CatalogHeader | None:
    """The header of the stored catalog; None before the first scan.

    Raises:
        FormatError: the header is damaged, or has another format version.
    """
    try:
        blob = output.read(HEADER_PATH)
    except NotFoundError:
        return None
    return CatalogHeader.from_bytes(blob, f"{output.uri}/{HEADER_PATH}")


def read_current_header(output: Storage, config: DatasetConfig) -> CatalogHeader | None:
    """The header of the stored catalog; None if there is no catalog that is complete and made with these settings.

    That is so before the first scan, after a change of splits or partitions, if another version wrote the catalog, and
    if a part was deleted. The next scan makes the catalog complete. Costs one listing of the parts, and reads none.
    """
    try:
        header = read_header(output)
    except FormatError:
        return None
    if header is None or (header.totals.dataset, header.totals.grouping) != (config.name, grouping_of(config)):
        return None
    there = sizes_of_parts(output)
    return header if all(there.get(part.path) == part.num_bytes for part in header.parts()) else None


def sizes_of_parts(output: Storage) -> dict[str, int]:
    """Path → size of all files in the folder of parts."""
    return {entry.path: entry.num_bytes for entry in output.list(PARTS_FOLDER)}


def unnamed_parts(output: Storage) -> list[StoredObject]:
    """Files of earlier scans: parts of the catalog, and of imported tables of columns, that no header names.

    A part that is younger than its header may be of a scan in progress, and is left out.

    Raises:
        FormatError: a header is damaged, so what it names is not known.
    """
    if (header := read_header(output)) is None:
        return []
    entries = list(output.list(CATALOG_FOLDER))
    written = {entry.path: entry.modified_seconds for entry in entries}
    named = {HEADER_PATH: {part.path for part in header.parts()}}
    headers = {PARTS_FOLDER: HEADER_PATH}
    for name in {
        path.removeprefix(TABLES_FOLDER).partition("/")[0] for path in written if path.startswith(TABLES_FOLDER)
    }:
        if (table := read_table_header(output, name)) is not None:
            headers[table_folder(name)] = own = header_path(name)
            named[own] = {own, *table.paths()}
    return [
        entry
        for folder, own in headers.items()
        for entry in entries
        if entry.path.startswith(folder) and entry.path not in named[own] and entry.modified_seconds <= written[own]
    ]


def header_version(output: Storage) -> str:
    """A string that changes with the stored catalog; empty before the first scan."""
    try:
        return output.version(HEADER_PATH)
    except NotFoundError:
        return ""


def grouping_of(config: DatasetConfig) -> str:
    """All settings that determine the partition of a recording, as one line of JSON."""
    partitioning = config.partitioning()
    source = config.source
    return json.dumps(
        [dict(partitioning.splits), dict(partitioning.partitions), config.group_by, source.duplicates, source.samples]
    )


def check_owner(totals: CatalogTotals, config: DatasetConfig, name: str) -> None:
    """Raise `CatalogError` if a catalog belongs to another data set, which `output.takes_over` does not name."""
    if totals.dataset not in {config.name, config.output.takes_over}:
        raise CatalogError(
            f"{name}: the output belongs to the data set {totals.dataset} (source {totals.source}), and {config.name} "
            f"would replace it; give {config.name} an output of its own, or, if it is to take the place of "
            f"{totals.dataset}, write output: {{uri: {config.output.uri}, takes_over: {totals.dataset}}}"
        )


def check_grouping(totals: CatalogTotals, config: DatasetConfig, name: str) -> None:
    """Raise `CatalogError` if a catalog belongs to another data set, or has partitions by other settings."""
    check_owner(totals, config, name)
    if totals.grouping != grouping_of(config):
        raise CatalogError(
            f"{name}: the source was scanned with other splits, partitions, group_by or source settings; {SCAN_AGAIN}"
        )


def catalog_digest(fingerprints: Mapping[str, str]) -> str:
    """Fingerprint of a catalog, given those of its partitions: see `CatalogTotals.digest`."""
    lines = (f"{partition} {fingerprint}\n" for partition, fingerprint in sorted(fingerprints.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def stamps_pieces(stamps: SourceStamps) -> list[bytes | memoryview]:
    """The content of the part with the stamps, in pieces. Equal stamps give equal bytes."""
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "path_digests": stamps.paths.view(np.uint8).reshape(-1, PATH_DIGEST.itemsize),
        "num_bytes": stamps.num_bytes,
        "mtime_ns": stamps.mtime_ns,
        "ctime_ns": stamps.ctime_ns,
    }
    return packed_pieces(arrays, {_STAMPS_VERSION: str(CATALOG_FORMAT)})


def read_stamps(output: Storage, header: CatalogHeader) -> SourceStamps:
    """The stamps of all files of the scan, except those that it left for the next one.

    Raises:
        FormatError: the part is damaged.
        NotFoundError: the part is missing.
    """
    path = header.totals.stamps.path
    place = f"{output.uri}/{path}"
    arrays, _ = unpack(output.read(path), place)
    numbers = dict.fromkeys(("num_bytes", "mtime_ns", "ctime_ns"), (np.int64,))
    found = checked(arrays, {"path_digests": (np.uint8, PATH_DIGEST.itemsize), **numbers}, place)
    paths = np.frombuffer(found["path_digests"].tobytes(), PATH_DIGEST)
    return SourceStamps(paths, found["num_bytes"], found["mtime_ns"], found["ctime_ns"])


def durations_bytes(durations: Sequence[float]) -> bytes:
    """The content of the part with the durations of some recordings, in seconds."""
    return pack({"seconds": np.array(durations, np.float64)}, {_DURATIONS_VERSION: str(CATALOG_FORMAT)})


def read_durations(output: Storage, header: CatalogHeader) -> list[float]:
    """Durations of some recordings, in seconds; empty if the scan stored none. Raises as `read_stamps`."""
    part = header.totals.scan.durations
    if part is None:
        return []
    place = f"{output.uri}/{part.path}"
    arrays, _ = unpack(output.read(part.path), place)
    found: list[float] = checked(arrays, {"seconds": (np.float64,)}, place)["seconds"].tolist()
    return found


def _checked(blob: bytes, name: str) -> tuple[CatalogTotals, bytes]:
    """The first line of a header, and what follows it, from its line break on, which is not parsed."""
    first = blob.partition(b"\n")[0]
    try:
        content = json_value(first)
        version, expected = content.pop(_VERSION), str(content.pop(_CHECKSUM, "none"))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FormatError(f"{name}: not the header of a catalog ({error}); {_way_out(name)}") from error
    if version != CATALOG_FORMAT:
        raise FormatError(f"{name}: expected format {CATALOG_FORMAT}, found {version}; {_way_out(name)}")
    found = _crc32(blob.replace(expected.encode(), _NO_CHECKSUM.encode(), 1)).decode()
    if expected != found:
        raise FormatError(f"{name}: damaged: CRC-32 {expected} expected, {found} found; {_way_out(name)}")
    try:
        return typed(CatalogTotals, content), blob[len(first) :]
    except ValueError as error:
        raise FormatError(f"{name}: incomplete ({error}); {_way_out(name)}") from error


def _way_out(name: str) -> str:
    return f"delete {name.rpartition('/')[2]}, and the next scan writes it again"


def _crc32(text: bytes) -> bytes:
    return b"%08x" % crc32(text)


def _entry(line: bytes, name: str) -> PartitionEntry:
    try:
        found = typed(PartitionEntry, json_value(line))
        check_partition(found.partition)
    except ValueError as error:
        raise FormatError(f"{name}: an incomplete line ({error}); {_way_out(name)}") from error
    return found
