"""Stores a catalog: writes the parts that changed, then the header that names them, and deletes old parts.

A reader of the header sees the old catalog or the new one, never a mixture. `headrace.catalog.stored.parts` reads them.
"""

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import polars as pl

from headrace.catalog.judging.acceptance import decode_rejects, with_decode_rejects
from headrace.catalog.rows.field_files import files_of
from headrace.catalog.rows.recordings import combined_digest
from headrace.catalog.rows.schemas import FILE_SCHEMA, RECORDING_SCHEMA, STAMP_SCHEMA, contents
from headrace.catalog.scanning.scan import Catalog
from headrace.catalog.stored.header import (
    CATALOG_FORMAT,
    HEADER_PATH,
    REJECTED_PATH,
    CatalogHeader,
    PartitionEntry,
    catalog_digest,
    durations_bytes,
    grouping_of,
    read_header,
    sizes_of_parts,
    stamps_pieces,
)
from headrace.catalog.stored.header_lines import NO_RECORD, PARTS_FOLDER, CatalogTotals, Part, ScanRecord
from headrace.catalog.stored.parquet_files import parquet_bytes, write_if_new
from headrace.catalog.stored.partitions import merged_names, num_samples, own_groups
from headrace.catalog.stored.parts import StoredCatalog, read_rows
from headrace.catalog.tables.buckets import PART_BYTES, Buckets, bucket_of_numbers, divided_by_number, parts_of
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import assign_partitions
from headrace.config.source import Duplicates, JsonContent
from headrace.format.manifests.manifests import NumberedManifest
from headrace.format.rejects import RejectSubject
from headrace.sources.listing import GatheredStamps, SourceStamps, stamps_of
from headrace.stores.storage import Storage, StoredObject

MIN_AGE_SECONDS = 86_400.0
"""A part that no header names may belong to a scan that has not written its header yet."""

_DIGITS = 12
_HASH, _NUMBER, _GROUP = "\0hash", "\0number", "\0group"  # no column of a user has such a name


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes parts that are not stored yet.

    Attributes:
        output: storage of the catalog.
        there: path → size of the parts of the catalog that this one replaces. They are kept while its header is there.
        probe_version: version of the probe that read the files.
    """

    output: Storage
    there: Mapping[str, int]
    probe_version: str

    def has(self, entry: PartitionEntry) -> bool:
        """Whether the parts of a partition are stored."""
        return all(self.there.get(part.path) == part.num_bytes for part in (entry.files, entry.rows) if part)

    def table(self, label: str, table: pl.DataFrame) -> Part:
        """Store a table under a label such as `train-0003.rows`."""
        return self.blob(label, ".parquet", parquet_bytes(table, self.probe_version))

    def blob(self, label: str, suffix: str, *pieces: bytes | memoryview) -> Part:
        """Store bytes, given in pieces, under a label and a suffix; the digest comes between them."""
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        sha256, num_bytes = digest.hexdigest(), sum(map(len, pieces))
        part = Part(f"{label}-{sha256[:_DIGITS]}{suffix}", num_bytes, sha256)
        if self.there.get(part.path) != num_bytes:
            self.output.write(part.path, list(pieces))
        return part

    def partition(self, name: str, recordings: pl.DataFrame) -> tuple[Part | None, Part | None]:
        """Store the recordings table of a partition. Returns its files and its rows; None for both if it is empty."""
        if recordings.is_empty():
            return None, None
        own = [column for column in recordings.columns if column not in FILE_SCHEMA.keys() - {"path"}]
        files = files_of(recordings)
        return self.table(f"{name}.files", files), self.table(f"{name}.rows", recordings.select(own))


def store_catalog(
    output: Storage, catalog: Catalog, config: DatasetConfig, previous: CatalogHeader | None = None
) -> CatalogHeader:
    """Write the parts that differ from those of the previous catalog, then the header that names them all.

    Args:
        output: storage of the catalog.
        catalog: its tables.
        config: the settings of the data set.
        previous: header of the stored catalog, whose parts are not written again; None to write all.

    Raises:
        ConfigError: `group_by` does not name a metadata column. Nothing is stored.
    """
    merged: dict[str, str] = {}
    if config.source.duplicates == Duplicates.GROUP:
        shared = catalog.recordings.filter(contents(catalog.recordings).is_duplicated())
        merged = merged_names([shared], config.group_by)
    with closing(CatalogWriter(output, config, catalog.probe_version, previous, merged)) as writer:
        writer.add(catalog.recordings)
        return writer.finish(catalog.rejected)


class CatalogWriter:
    """Stores a catalog that is given in parts, see `store_catalog`. Rows are divided by partition in a temporary file.

    Attributes:
        num_recordings: recordings so far.
        schema: names and types of their columns.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - where, how, and what is there
        self,
        output: Storage,
        config: DatasetConfig,
        probe_version: str,
        previous: CatalogHeader | None,
        merged: Mapping[str, str],
        most_bytes: int = PART_BYTES,
        source: str | None = None,
    ) -> None:
        """Nothing is written before `finish`.

        Args:
            output: storage of the catalog.
            config: the settings of the data set.
            probe_version: version of the probe that read the files.
            previous: header of the stored catalog, whose parts are not written again; None to write all.
            merged: groups that have the same bytes as others → name of their merged group.
            most_bytes: about this much is kept in memory.
            source: where the recordings are; None for the place in the settings.
        """
        there = {} if previous is None else _parts_of(output, previous)
        self._parts = PartWriter(output, there, probe_version)
        self._output, self._config, self._previous, self._merged = output, config, previous, merged
        self._names = config.partitioning().partition_keys()
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._most_bytes = most_bytes
        self._source = config.source.uri if source is None else source
        self._rows: Buckets | None = None
        self._stamps = GatheredStamps()
        self._seconds: list[pl.Series] = []
        self._num_duplicates = self._largest_group = 0
        self.num_recordings = 0
        self.schema = pl.Schema()

    def add(self, recordings: pl.DataFrame) -> None:
        """Add recordings: all rows of their files, and of each file in the catalog's order.

        Raises:
            ConfigError: `group_by` does not name a metadata column.
        """
        groups = own_groups(recordings, self._config.group_by)
        groups = groups.replace(self._merged) if self._merged else groups
        assigned = assign_partitions(groups, self._config.partitioning())
        numbers = pl.Series(_NUMBER, [self._numbers[name] for name in assigned], dtype=pl.UInt32)
        divided = recordings.with_columns(numbers, groups.alias(_GROUP))
        if self._rows is None:
            self._rows = Buckets(divided.schema, self._most_bytes)
        self._rows.add(divided, bucket_of_numbers(numbers, len(self._names)))
        files = files_of(recordings)
        self._stamps.add(stamps_of(*(files[name] for name in STAMP_SCHEMA)))
        self._seconds.append(recordings["duration_seconds"])
        self._num_duplicates += recordings["duplicate_of"].count()
        self.schema = recordings.schema
        self.num_recordings += recordings.height

    def count_files(self) -> int:
        """The number of files of all recordings so far. Those of audio fields may be named in several parts."""
        return len(self._distinct_stamps()) if self._config.source.fields else len(self._stamps)

    def finish(
        self,
        rejected: pl.DataFrame,
        left_out: SourceStamps | None = None,
        record: ScanRecord = NO_RECORD,
        durations: Sequence[float] = (),
    ) -> CatalogHeader:
        """Write the parts that changed, then the header.

        Args:
            rejected: the table of rejects.
            left_out: the files that `source.where` leaves out; None for none.
            record: what the scan found besides the tables.
            durations: durations of some recordings, in seconds; not stored if there are none.
        """
        if self._rows is None:
            raise ValueError("no part has been added")
        config, writer = self._config, self._parts
        stamps = writer.blob("stamps", ".arrays", *stamps_pieces(self._all_stamps(rejected, left_out)))
        entries = dict(self._entries(self._rows))
        totals = CatalogTotals(
            dataset=config.name,
            source=self._source,
            digest=catalog_digest({name: entry.fingerprint for name, entry in entries.items()}),
            grouping=grouping_of(config),
            probe_version=writer.probe_version,
            num_duplicates=self._num_duplicates,
            largest_group=self._largest_group,
            durations=_points(pl.concat(self._seconds)),
            rejects=_counts(rejected),
            rejected=writer.table("rejected", rejected),
            stamps=stamps,
            scan=record,
        )
        if durations:
            stored = writer.blob("durations", ".arrays", durations_bytes(durations))
            totals = replace(totals, scan=replace(record, durations=stored))
        header = CatalogHeader(totals, entries)
        publish(self._output, header, self._previous)
        return header

    def _all_stamps(self, rejected: pl.DataFrame, left_out: SourceStamps | None) -> SourceStamps:
        """The stamps of all files."""
        files = rejected.select("origin", *STAMP_SCHEMA).filter(pl.col("origin") == RejectSubject.FILE)
        self._stamps.add(stamps_of(*(files[name] for name in STAMP_SCHEMA)))
        if left_out is not None:
            self._stamps.add(left_out)
        return self._distinct_stamps()

    def _distinct_stamps(self) -> SourceStamps:
        """Stamps of all parts, each file once: rows of several parts may name a file as an audio field."""
        found = self._stamps.all()
        return found.distinct() if self._config.source.fields else found

    def close(self) -> None:
        """Delete the temporary files."""
        self._stamps.close()
        if self._rows is not None:
            self._rows.close()

    def _entries(self, divided: Buckets) -> Iterator[tuple[str, PartitionEntry]]:
        """The entry of each partition, empty ones included."""
        known = {} if self._previous is None else self._previous.partitions
        seconds = self._config.audio.segment_seconds
        for run in parts_of([divided], self._most_bytes):
            rows = divided.part(run)
            groups = rows.group_by(_GROUP).len()["len"]
            self._largest_group = max(self._largest_group, int(groups.max() or 0))  # type: ignore[arg-type]  # of counts: a number
            rows = rows.drop(_GROUP).sort(_NUMBER, "path", maintain_order=True)
            rows = rows.with_columns(_row_hashes(rows, self._config.source.json_content))
            for number, part in divided_by_number(rows, _NUMBER, run, len(self._names)):
                name = self._names[number]
                yield name, _entry(self._parts, name, part, known.get(name), seconds)


def _row_hashes(recordings: pl.DataFrame, content: JsonContent) -> pl.Series:
    """A hash of each row, without the user's columns if their values are in the recording's digest."""
    whole = recordings.drop(_NUMBER)
    hashed = whole.select(*RECORDING_SCHEMA) if content == JsonContent.EMBED else whole
    return hashed.hash_rows().alias(_HASH)


def _content(rows: pl.DataFrame, probe_version: str) -> str:
    """`PartitionEntry.content`. Another version of polars may give another digest, which costs writing the parts."""
    digest = hashlib.sha256(f"{CATALOG_FORMAT} {probe_version} {rows.schema}".encode())
    digest.update(rows[_HASH].to_numpy().tobytes())
    return digest.hexdigest()[:32]


def _entry(
    writer: PartWriter, name: str, rows: pl.DataFrame, before: PartitionEntry | None, segment_seconds: float | None
) -> PartitionEntry:
    content = _content(rows, writer.probe_version)
    fingerprint = combined_digest(rows["recording_digest"].sort())
    number = num_samples(rows, segment_seconds)
    if before is not None and (before.content, before.fingerprint) == (content, fingerprint) and writer.has(before):
        return replace(before, num_samples=number)
    rows = rows.drop(_HASH)
    files, stored = writer.partition(name, rows)
    return PartitionEntry(
        partition=name,
        fingerprint=fingerprint,
        content=content,
        num_rows=rows.height,
        num_samples=number,
        seconds=float(rows["duration_seconds"].sum()),
        num_bytes=int(files_of(rows)["num_bytes"].sum()),
        files=files,
        rows=stored,
    )


def publish(output: Storage, header: CatalogHeader, previous: CatalogHeader | None) -> None:
    """Write a header, then the copy of its rejects, then delete old parts.

    The parts of the previous header stay: a run that has read it may still read them.
    """
    write_if_new(output, HEADER_PATH, header.to_bytes())
    copy_rejects(output, header)
    kept = {part.path for one in (header, previous) if one is not None for part in one.parts()}
    remove_old_parts(output, list(output.list(PARTS_FOLDER)), kept, time.time())


def copy_rejects(output: Storage, header: CatalogHeader) -> None:
    """Write the copy of the rejects for people, unless it is there."""
    write_if_new(output, REJECTED_PATH, output.read(header.totals.rejected.path))


def remove_old_parts(output: Storage, parts: Iterable[StoredObject], kept: Collection[str], now_seconds: float) -> None:
    """Delete those of the listed parts that are older than a day and whose path is not in `kept`."""
    for entry in parts:
        if entry.path not in kept and now_seconds - entry.modified_seconds > MIN_AGE_SECONDS:
            output.delete(entry.path)


def store_decode_rejects(catalog: StoredCatalog, manifests: Mapping[str, NumberedManifest]) -> None:
    """Replace the rejected rows of origin `decode` by the rejections of all manifests.

    Only partitions with rejections are read. Nothing is stored if another scan has replaced the catalog that the
    manifests were built from.
    """
    output, header = catalog.output, catalog.header
    current = read_header(output)
    if current is None or current.digest != header.digest:
        return
    stored = StoredCatalog(output, current)
    rejected = with_decode_rejects(stored.rejected(), _decode_rejects(stored, manifests))
    part = PartWriter(output, _parts_of(output, current), current.totals.probe_version).table("rejected", rejected)
    totals = replace(current.totals, rejected=part, rejects=_counts(rejected))
    publish(output, CatalogHeader(totals, current.partitions), current)


def _decode_rejects(catalog: StoredCatalog, manifests: Mapping[str, NumberedManifest]) -> Iterator[pl.DataFrame]:
    """Rows for the table of rejects: recordings that were rejected when their partition was built."""
    schema = {"path": pl.String, "key": pl.String, "code": pl.String, "reason": pl.String}
    columns = ["key", "start_frame", "stop_frame", "channels", *FILE_SCHEMA]
    for partition, numbered in manifests.items():
        entry = catalog.header.partitions.get(partition)
        if numbered.manifest.refused and entry is not None and entry.rows is not None:
            refused = [
                (refusal.path, refusal.key, refusal.code, refusal.reason) for refusal in numbered.manifest.refused
            ]
            faults = pl.DataFrame(refused, schema=schema, orient="row")
            yield decode_rejects(read_rows(catalog.output, entry, columns), faults)


def _parts_of(output: Storage, header: CatalogHeader) -> dict[str, int]:
    """Path → size of the parts of a header that exist."""
    there = sizes_of_parts(output)
    return {part.path: there[part.path] for part in header.parts() if part.path in there}


def _points(durations: pl.Series) -> tuple[float, float, float]:
    """The 10, 50 and 90% points of durations; zeros without any."""
    low, middle, high = (float(durations.quantile(share) or 0.0) for share in (0.1, 0.5, 0.9))
    return low, middle, high


def _counts(rejected: pl.DataFrame) -> tuple[tuple[str, str, int], ...]:
    """(origin, code, number of rows) of a table of rejects, sorted."""
    counts = rejected.group_by("origin", "code").len().sort("origin", "code")
    return tuple((origin, code, number) for origin, code, number in counts.iter_rows())
