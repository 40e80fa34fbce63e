"""Finds every file of an output that holds a sample: what a takedown has to remove, and proves that it has.

All shards in the folders count, also those that no snapshot names any more. Nothing is changed.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, repeat
from typing import TYPE_CHECKING

from headrace.catalog.stored.column_header import TABLES_FOLDER
from headrace.catalog.stored.header import CATALOG_FOLDER, unnamed_parts
from headrace.errors import ConfigError, EmptyViewError, FormatError, HeadraceError, NotFoundError
from headrace.format.beside.column_files import read_columns
from headrace.format.beside.column_table import ColumnKind, ColumnTable, keys_digest
from headrace.format.beside.view_files import partitions_of, read_counts, read_view
from headrace.format.beside.views import counts_of
from headrace.format.indexes.index import COLUMNS_SUFFIX, ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.lazy import cached_property
from headrace.format.segment_keys import recording_key, span_recording
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.format.tars.tar_names import TAR_SUFFIX
from headrace.locate.outputs import AUDIO, COLUMNS, possible_folders, view_folders
from headrace.stores.storage import Storage
from headrace.views.syntax import Name, parsed

if TYPE_CHECKING:
    import polars as pl

CATALOG = "catalog"
_PATH = "path"
_PARTS = "/parts/"
_PROVENANCE = re.compile(r"(own_)*provenance")
_MARKS = ("=", "<", ">", "(", " is ", " in ", " like ", " ilike ", " between ", " not ")  # of conditions
_OF_CONDITIONS = re.compile("[=<>'\"]")
_SUFFIX = re.compile(r"\.\w{1,5}$")


@dataclass(frozen=True, slots=True)
class Holding:
    """One file that holds a sample.

    Attributes:
        part: `audio`, `latents/<name>`, `columns/<set>`, `views/<name>`, or `catalog` for a file of an earlier scan.
        key: the sample's key.
        file: path of the file in its part.
        snapshots: numbers of the snapshots of the part that name the file, ascending; empty if none does.
    """

    part: str
    key: str
    file: str
    snapshots: tuple[int, ...]


class SampleSearch:
    """Looks for samples in all shards, columns and views of an output. Indexes are read once, shards never."""

    def __init__(self, output: Storage, progress: Callable[[], object] = lambda: None) -> None:
        """Read nothing yet; `progress` is called for each index and each file of columns."""
        self._output = output
        self._progress = progress

    def holdings(self, keys: Iterable[str]) -> list[Holding]:
        """The files that hold one of these samples."""
        wanted = frozenset(keys)
        found = (self._in_shards, self._in_columns, self._in_views, self._in_earlier_catalogs)
        return [*chain.from_iterable(look(wanted) for look in found)] if wanted else []

    def keys_of(self, what: str) -> frozenset[str]:
        """The keys that a text means: a key, the key of a recording that was cut into segments, or a path.

        The path is that of a recording in the source, as the columns `metadata` have it, or in the source of an
        earlier output from which this one was made (`kind: headrace`).
        """
        indexes = chain.from_iterable(shards.values() for shards in self._shards.values())
        earlier = {key: paths for rows in self._earlier_catalogs.values() for key, paths in rows.items() if key}
        keys = {*chain.from_iterable(index.keys() for index in indexes), *earlier}
        named = {key for key in keys if what in _aliases(key)}
        if not named:
            recordings = {*self._keys_of_path(what), *(key for path, key in self._in_catalog if path == what)}
            recordings |= {key for key, paths in earlier.items() if what in paths}
            named = {key for key in keys if not recordings.isdisjoint({key, recording_key(key)})}
        return frozenset(named)

    def rows_left(self, keys: Collection[str], what: str) -> Iterator[Holding]:
        """Rows of samples that are in no shard any more, in tables of columns that a scan divided among partitions.

        A scan divides the tables that the YAML names, so those of a set that left the YAML stay as they were.

        Args:
            keys: the keys that `what` means.
            what: a key or a path; of a sample that was taken down, it may mean no key.
        """
        gone = {key for key in keys if all(index.find(key) is None for index in self._audio.values())}
        gone |= {what} if len(gone) == len(keys) else set()
        if not gone or find_spec("polars") is None:
            return
        earlier = chain.from_iterable(rows.items() for rows in self._earlier_catalogs.values())
        pairs = {*self._in_catalog, *((path, key) for key, paths in earlier for path in paths)}
        names = {name: name for name in gone} | {other: name for pair in pairs for name, other in _both(pair, gone)}
        for entry in sorted(self._output.list(TABLES_FOLDER), key=lambda entry: entry.path):
            if _PARTS in entry.path:
                stored = _parquet(self._output, entry.path, [0]).to_series(0)
                held = {names[alias] for name in stored for alias in _aliases(name) if alias in names}
                file = entry.path.removeprefix(CATALOG_FOLDER)
                yield from (Holding(CATALOG, name, file, ()) for name in sorted(held))

    def is_true_or_false(self, what: str) -> bool:
        """Whether a text is the name of a column of true and false, which is a condition by itself."""
        specs = chain.from_iterable(table.specs for tables in self._columns.values() for table in tables.values())
        flags = {spec.name for spec in specs if spec.kind is ColumnKind.BOOL}
        return _parses(what) and isinstance(tree := parsed(what), Name) and tree.parts[-1] in flags

    def keys_where(self, condition: str) -> frozenset[str]:
        """Keys of the samples of the newest audio snapshot that fulfil a condition on its columns.

        Raises:
            ConfigError: the condition is not valid.
            MissingDependencyError: polars is not installed.
        """
        from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415 - torch, which other searches need not load

        try:
            chosen = StreamingDataset(remote=self._output.uri, where=condition, batch_size=1, fields=["metadata"])
        except EmptyViewError:
            return frozenset()
        return frozenset(sample["__key__"] for sample in chosen)

    @property
    def _audio(self) -> Mapping[str, ShardIndex]:
        return self._shards[AUDIO]

    @cached_property
    def _shards(self) -> Mapping[str, Mapping[str, ShardIndex]]:
        """Folder of audio or latents → shard → its index."""
        folders = {name: folder for name, folder in possible_folders(self._output).items() if not _is_of_columns(name)}
        return {name: dict(self._indexes(folder)) for name, folder in folders.items()}

    @cached_property
    def _columns(self) -> Mapping[str, Mapping[str, ColumnTable]]:
        """Folder → file → its columns."""
        folders = {name: folder for name, folder in possible_folders(self._output).items() if _is_of_columns(name)}
        return {name: dict(self._tables(folder)) for name, folder in folders.items()}

    def _indexes(self, folder: Storage) -> Iterator[tuple[str, ShardIndex]]:
        for entry in folder.list():
            if entry.path.endswith(TAR_SUFFIX) and "/" not in entry.path:
                self._progress()
                try:
                    yield entry.path, read_index(folder, entry.path)
                except NotFoundError as error:
                    if folder.exists(entry.path):
                        raise NotFoundError(
                            f"{folder.uri}/{entry.path}: has no index, so its samples are not known. If a gc was "
                            "interrupted, run headrace gc again; else build the data set again"
                        ) from error

    def _tables(self, folder: Storage) -> Iterator[tuple[str, ColumnTable]]:
        for entry in folder.list():
            if entry.path.endswith(COLUMNS_SUFFIX) and "/" not in entry.path:
                self._progress()
                yield entry.path, read_columns(folder, entry.path)

    def _in_shards(self, wanted: frozenset[str]) -> Iterator[Holding]:
        for part, shards in self._shards.items():
            named = _snapshots_by_file(self._output.at(part))
            for shard, index in shards.items():
                yield from (
                    Holding(part, key, shard, named[shard]) for key in sorted(wanted) if index.find(key) is not None
                )

    def _in_columns(self, wanted: frozenset[str]) -> Iterator[Holding]:
        rows = {
            keys_digest(keys): sorted(wanted.intersection(keys))
            for keys in (index.keys() for index in self._audio.values())
        }
        for part, tables in self._columns.items():
            named = _snapshots_by_file(self._output.at(part))
            for file, table in tables.items():
                held = rows.get(table.keys_sha256) or sorted(wanted.intersection(_fact(table, "key")))
                yield from (Holding(part, key, file, named[file]) for key in held)

    def _in_views(self, wanted: frozenset[str]) -> Iterator[Holding]:
        audio, places = self._output.at(AUDIO), self._places(wanted)
        for view in view_folders(self._output):
            found: dict[tuple[str, str], list[int]] = defaultdict(list)
            for number in view.numbers:
                snapshot = read_view(view.storage, number).snapshot
                try:
                    table = read_table(audio, read_snapshot(audio, snapshot.audio_snapshot).snapshot)
                except NotFoundError:  # its audio snapshot is gone, so its counts have no keys
                    continue
                for partition, rows in partitions_of(table):
                    if (file := snapshot.counts.get(partition)) is None:
                        continue
                    counts = counts_of(read_counts(view.storage, file), f"{view.storage.uri}/{file.path}")
                    for key, place in _in_partition(table, rows, places):
                        if counts[place]:
                            found[key, file.path].append(number)
            yield from (Holding(view.name, *held, tuple(numbers)) for held, numbers in sorted(found.items()))

    def _places(self, wanted: frozenset[str]) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Audio shard → the wanted keys in it, and their rows; without the shards that have none."""
        found = {}
        for shard, index in self._audio.items():
            keys = wanted if len(wanted) < len(index) else wanted.intersection(index.keys())
            if rows := [(key, row) for key in keys if (row := index.find(key)) is not None]:
                found[shard] = rows
        return found

    def _in_earlier_catalogs(self, wanted: frozenset[str]) -> Iterator[Holding]:
        for file, rows in self._earlier_catalogs.items():
            yield from (Holding(CATALOG, key, file, ()) for key in sorted(wanted & rows.keys()))

    @cached_property
    def _earlier_catalogs(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """File of an earlier scan, which `headrace gc` deletes → key → paths of its row; empty without polars."""
        if find_spec("polars") is None:
            return {}
        found = {}
        for entry in sorted(unnamed_parts(self._output), key=lambda entry: entry.path):
            if entry.path.endswith(".parquet"):
                rows = _parquet(self._output, entry.path)
                if {"key", _PATH} <= set(rows.columns):
                    found[entry.path.removeprefix(CATALOG_FOLDER)] = dict(_paths(rows))
        return found

    @cached_property
    def _in_catalog(self) -> Sequence[tuple[str, str]]:
        """Path and key of each recording and reject of the catalog that has a key; none without polars or a catalog."""
        try:
            from headrace.catalog.stored.parts import read_catalog  # noqa: PLC0415 - polars: a training node has none

            catalog = read_catalog(self._output)
        except (ImportError, HeadraceError):
            return []
        tables = [] if catalog is None else [catalog.recordings(), catalog.rejected()]
        rows = chain.from_iterable(map(_paths, tables))
        return [(path, key) for key, paths in rows if key for path in sorted(paths)]

    def _keys_of_path(self, path: str) -> Iterator[str]:
        for tables in self._columns.values():
            for table in tables.values():
                own = [frozenset({found}) for found in _fact(table, _PATH)]
                for paths in (own, *_earlier_paths(table)):
                    yield from (key for found, key in zip(paths, _fact(table, "key"), strict=False) if path in found)


def find_samples(output: Storage, what: str, progress: Callable[[], object]) -> tuple[list[str], list[Holding]]:
    """The keys that a text means, and the files of an output that hold these samples.

    Args:
        output: the output of a data set.
        what: a key, the path of a recording in the source, or a condition on the columns.
        progress: called for each index and each file of columns.

    Raises:
        ConfigError: it is empty, or neither a known key nor a known path, and as a condition it is not valid.
    """
    if not what:
        raise ConfigError("KEY is empty: expected a key, the path of a recording, or a condition on columns")
    search = SampleSearch(output, progress)
    keys = search.keys_of(what)
    if not keys and (is_condition(what) or search.is_true_or_false(what)):
        keys = search.keys_where(what)
        return sorted(keys), search.holdings(keys)
    return sorted(keys), [*search.holdings(keys), *search.rows_left(keys, what)]


def _parquet(output: Storage, path: str, columns: list[int] | None = None) -> "pl.DataFrame":
    """A table of an earlier scan, or some of its columns. Raises `FormatError` if it is damaged."""
    import polars as pl  # noqa: PLC0415 - a training node has none

    try:
        return pl.read_parquet(output.read(path), columns=columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"{output.uri}/{path}: a damaged file of an earlier catalog ({error}); delete it") from error


def _paths(rows: "pl.DataFrame") -> Iterator[tuple[str, frozenset[str]]]:
    """Key of each row of a catalog, and the paths of its recording: one, or one of each named audio field."""
    from headrace.catalog.rows.field_files import parsed_field_files  # noqa: PLC0415 - of the room that needs polars

    columns = [rows[name] for name in ("key", _PATH)]
    texts = rows["field_files"] if "field_files" in rows.columns else repeat(None)
    for key, path, text in zip(*columns, texts, strict=False):
        yield key, frozenset({path, *(file.path for file in parsed_field_files(text))})


def is_condition(what: str) -> bool:
    """Whether a text is a condition rather than a key or a path, such as `Live In Berlin.wav` or `song (live).wav`.

    What is no valid condition is still one, with a fault, unless it looks like the path of a file.
    """
    words = f" {' '.join(what.lower().split())} "
    if not any(mark in words for mark in _MARKS):
        return False
    return bool(_OF_CONDITIONS.search(what)) or not _SUFFIX.search(what) or _parses(what)


def _parses(what: str) -> bool:
    try:
        parsed(what)
    except ConfigError:
        return False
    return True


def _aliases(key: str) -> set[str]:
    """A key, and the key of the recording from which its sample was cut."""
    return {key, recording_key(key), span_recording(key)}


def _both(pair: tuple[str, str], wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """A wanted name of a pair and the other one."""
    yield from ((one, other) for one, other in (pair, pair[::-1]) if one in wanted)


def _in_partition(
    table: ShardTable, rows: slice, places: Mapping[str, Sequence[tuple[str, int]]]
) -> Iterator[tuple[str, int]]:
    """Each key of a partition and the number of its sample there; `places` has keys and rows by shard."""
    start = 0
    for row in range(rows.start, rows.stop):
        yield from ((key, start + place) for key, place in places.get(table.name(row), ()))
        start += int(table.num_samples[row])


def _snapshots_by_file(folder: Storage) -> Mapping[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = defaultdict(tuple)
    for number in snapshot_numbers(folder):
        for name in read_table(folder, read_snapshot(folder, number).snapshot).names():
            found[name] += (number,)
    return found


def _is_of_columns(part: str) -> bool:
    return part.startswith(f"{COLUMNS}/")


def _fact(table: ColumnTable, name: str) -> list[str]:
    """The values of a fact; empty if the set does not have it."""
    if not any(spec.is_fact and spec.name == name for spec in table.specs):
        return []
    return [str(value) for value in table.column(name, is_fact=True).take(range(len(table)))]


def _earlier_paths(table: ColumnTable) -> Iterator[list[frozenset[str]]]:
    """For each earlier output from which this one was made: the paths of the recordings of each sample in its source.

    `kind: headrace` keeps them in the columns `provenance`, `own_provenance` and so on.
    """
    for spec in table.specs:
        if _PROVENANCE.fullmatch(spec.name):
            yield [_sources(value) for value in table.column(spec.name).take(range(len(table)))]


def _sources(provenance: object) -> frozenset[str]:
    """The path, or that of each named audio field, of a provenance; none of another value."""
    if not isinstance(provenance, Mapping):
        return frozenset()
    fields = provenance.get("fields")
    about = [provenance, *(fields.values() if isinstance(fields, Mapping) else ())]
    return frozenset(str(one["source"]) for one in about if isinstance(one, Mapping) and "source" in one)
