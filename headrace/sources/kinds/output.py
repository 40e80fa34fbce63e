"""`kind: headrace`: a snapshot, a view or a split of another output as a source.

A recording is the audio of a sample, read in place. Its path, such as `train-0003/000012/KEY.flac`, has the partition
and the number of its shard, which stay when other samples of the shard change. The sample's provenance is the column
`provenance`. Columns are those of the metadata, and those of all other sets that fit the snapshot: `NAME`, or
`NAME_SET` where the metadata or several sets have the name. Several outputs are one source
(`headrace.sources.kinds.merged_outputs`), in which a path begins with the name of its output.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from headrace.config.content import METADATA_SET
from headrace.config.section import Section
from headrace.errors import ConfigError, NotFoundError
from headrace.format.beside.column_sets import ColumnSet, fitting_columns
from headrace.format.beside.view_files import read_counts, read_view
from headrace.format.beside.views import VIEWS, ViewSnapshot, counts_of
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.keys import KEY_PATTERN
from headrace.format.manifests.manifests import parsed_name
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, snapshot_numbers, snapshot_path
from headrace.format.tars.member_names import JSON_FIELD
from headrace.format.tars.tar import payload
from headrace.format.typed_json import json_value
from headrace.locate.outputs import AUDIO, COLUMNS, folders_of_output, table_of_tars
from headrace.source_kinds import SourceKind
from headrace.sources.corpus_rows import own_columns
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.kinds.merged_outputs import MergedItems
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import absolute, is_url, opened, pieces
from headrace.stores.storage import Storage, open_storage

_KEPT_INDEXES = 256
_PATH = re.compile(r"([^/]+-\d{4,}/\d{6,})/([^/.]+)\.([^/]+)")
_PROVENANCE = "provenance"
_TAKEN = ("id", "path")


class OutputOptions(Section):
    """The options of `kind: headrace`.

    Attributes:
        snapshot: number of the audio snapshot; None for the newest, or the newest of the view.
        view: name of a view; samples that it does not choose are no recordings. Each other one is one recording.
        split: one split; None for all.
        prefix: whether a sample has the name of its output before its key.
    """

    snapshot: Annotated[int, Field(ge=1)] | None = None
    view: str | None = None
    split: str | None = None
    prefix: bool = False


@dataclass(frozen=True)
class OutputItems:
    """The samples of a snapshot.

    Attributes:
        root: the output, an absolute path or a URL.
        number: the audio snapshot.
        view: the number of the view's snapshot; None without a view.
        options: see `OutputOptions`.
        name: first part of the paths; empty for the only output without a prefix.
    """

    root: str
    number: int
    view: int | None
    options: OutputOptions
    name: str = ""

    def items(self) -> Iterator[Item]:
        """See `Items.items`."""
        for place, shard, index, rows in self._chosen():
            for row in rows:
                for field, (start, stop) in _audio(index, row).items():
                    yield Item(f"{place}/{index.key(row)}.{field}", self._file(shard), stop - start)

    def place(self, path: str, stamp: FileStamp) -> Place:  # noqa: ARG002 - shards never change
        """See `Items.place`."""
        match = _PATH.fullmatch(path.removeprefix(self._before))
        shard = self._shards.get(match[1]) if match else None
        if match is None or shard is None:
            raise NotFoundError(f"{path}: snapshot {self.number} of {self.root} has no such shard")
        index = _index(self._audio.uri, shard)
        row = index.find(match[2])
        span = None if row is None else index.range_of(row, match[3])
        if span is None:
            raise NotFoundError(f"{path}: {shard} of {self.root} has no such sample")
        return Place(self._file(shard), span[0])

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`."""
        for place, shard, index, rows in self._chosen():
            tables = {name: found.read(shard) for name, found in self._sets.items()}
            columns = {joined: tables[name].column(column) for joined, (name, column) in self._columns.items()}
            with opened(self._file(shard)) as file:
                for row in rows:
                    span = index.range_of(row, JSON_FIELD)
                    about = {} if span is None else json_value(payload(file, span))
                    last = about.pop("headrace", None)
                    own = about | {joined: column.value(row) for joined, column in columns.items()}
                    told = {"id": index.key(row), **_paths(place, index, row), _PROVENANCE: last}
                    if _is_provenance(own.get(_PROVENANCE)):  # of the first output: `last` is of this one
                        told[_PROVENANCE], own[_PROVENANCE] = own[_PROVENANCE], last
                    yield {**told, **own_columns(own, (*_TAKEN, *told))}

    def has(self, key: str) -> bool:
        """Whether a chosen sample has this key."""
        return any(index.find(key) in rows for _, _, index, rows in self._chosen())

    def tables(self) -> Sequence[str]:
        """See `Items.tables`: the snapshots, which name everything else by its digest."""
        found = [f"{self.root}/{AUDIO}/{snapshot_path(self.number)}"]
        if self.view is not None:
            found.append(f"{self.root}/{VIEWS}/{self.options.view}/{snapshot_path(self.view)}")
        return found + [f"{one.storage.uri}/{snapshot_path(one.snapshot.number)}" for one in self._sets.values()]

    @property
    def _before(self) -> str:
        return f"{self.name}/" if self.name else ""

    @property
    def _output(self) -> Storage:
        return open_storage(self.root)

    @cached_property
    def _audio(self) -> Storage:
        return self._output.at(AUDIO)

    @cached_property
    def _snapshot(self) -> NumberedSnapshot:
        return read_snapshot(self._audio, self.number)

    @cached_property
    def _shards(self) -> dict[str, str]:
        """Place of each shard of the snapshot and split → its name."""
        table, rows = table_of_tars(self._audio, self._snapshot, self.options.split)
        return {_place(name): name for name in table.names()[rows]}

    @cached_property
    def _sets(self) -> dict[str, ColumnSet]:
        """Name of each set of columns that fits the snapshot → the set; the metadata first."""
        names = [folder.name for folder in folders_of_output(self._output) if folder.name.startswith(f"{COLUMNS}/")]
        found = {}
        for name in sorted(names, key=lambda name: (name != f"{COLUMNS}/{METADATA_SET}", name)):
            with suppress(NotFoundError):
                found[name.partition("/")[2]] = fitting_columns(self._output.at(name), self._snapshot.snapshot)
        return found

    @cached_property
    def _columns(self) -> dict[str, tuple[str, str]]:
        """Name of each column of the rows → its set, and its name there; facts of the catalog are left out.

        Raises `ConfigError` if two columns would have one name.
        """
        owners: dict[str, list[str]] = {}
        for name, found in self._sets.items():
            for spec in found.specs:
                if not spec.is_fact:
                    owners.setdefault(spec.name, []).append(name)
        columns: dict[str, tuple[str, str]] = {}
        for column, names in owners.items():
            for owner in names:
                joined = column if owner == METADATA_SET or len(names) == 1 else f"{column}_{owner}"
                if first := columns.get(joined):
                    raise ConfigError(
                        f"source.uri {self.root}: column {first[1]!r} of {first[0]!r} and column {column!r} of "
                        f"{owner!r} would both be {joined!r} in the rows; rename one of the columns in that data set"
                    )
                columns[joined] = owner, column
        return columns

    def _file(self, shard: str) -> str:
        return f"{self.root}/{AUDIO}/{shard}"

    def _chosen(self) -> Iterator[tuple[str, str, ShardIndex, list[int]]]:
        """Place, name and index of each shard, and its samples that are chosen."""
        counts = None if self.view is None else self._counts(self.view)
        for place, shard in self._shards.items():
            index = _index(self._audio.uri, shard)
            rows = range(len(index))
            yield (
                f"{self._before}{place}",
                shard,
                index,
                [row for row in rows if counts is None or counts.get((place, row))],
            )

    def _counts(self, number: int) -> dict[tuple[str, int], int]:
        """Place of a shard, and number of a sample in it → how often the view takes it, if at least once."""
        storage = self._output.at(f"{VIEWS}/{self.options.view}")
        files = read_view(storage, number).snapshot.counts
        found: dict[tuple[str, int], int] = {}
        table, _ = table_of_tars(self._audio, self._snapshot, None)
        first: dict[str, int] = {}  # of the next shard of each partition
        for name, num_samples in zip(table.names(), table.num_samples.tolist(), strict=True):
            partition = _place(name).partition("/")[0]
            start = first.get(partition, 0)
            first[partition] = start + num_samples
            if partition in files:
                counts = _partition_counts(self.root, str(self.options.view), number, partition)
                taken = enumerate(counts[start : start + num_samples])
                found |= {(_place(name), row): count for row, count in taken if count}
        return found


@functools.lru_cache(maxsize=_KEPT_INDEXES)
def _index(audio: str, shard: str) -> ShardIndex:
    return read_index(open_storage(audio), shard)


@functools.lru_cache(maxsize=_KEPT_INDEXES)
def _partition_counts(root: str, view: str, number: int, partition: str) -> tuple[int, ...]:
    storage = open_storage(root).at(f"{VIEWS}/{view}")
    file = read_view(storage, number).snapshot.counts[partition]
    return tuple(counts_of(read_counts(storage, file), f"{storage.uri}/{file.path}").tolist())


def _place(shard: str) -> str:
    """Partition and number of a shard: `train-0003/000012`."""
    match = parsed_name(shard)
    return f"{match['split']}-{match['bucket']}/{match['sequence']}"


def _is_provenance(value: object) -> bool:
    """Whether a value of the metadata says from which file a sample was made, as Headrace writes it."""
    return isinstance(value, dict) and value.keys() >= {"source", "num_frames", "sample_rate"}


def _audio(index: ShardIndex, row: int) -> dict[str, tuple[int, int]]:
    """Member → range of the audio of a sample: one, or one for each audio field."""
    found = (index.audio_of(row, name) for name in index.audio_fields or ("",))
    return {audio.member: audio.span for audio in found if audio is not None}


def _paths(place: str, index: ShardIndex, row: int) -> dict[str, str | None]:
    """`path` of the audio of a sample; with named audio fields also `mix_path` and so on."""
    members = list(_audio(index, row))
    first = f"{place}/{index.key(row)}.{members[0]}" if members else None
    named = zip(index.audio_fields, members, strict=False)
    return {"path": first, **{f"{name}_path": f"{place}/{index.key(row)}.{member}" for name, member in named}}


def _open(uri: str, options: OutputOptions, exclude: Sequence[str]) -> ItemCorpus:
    roots, written = _roots(uri), {_real(place) for place in exclude}
    if itself := next((root for root in roots if _real(root) in written), None):
        raise ConfigError(
            f"source.uri {itself}: output.uri is the same folder, and each build would change its own source; give the "
            "new output a place of its own"
        )
    if len(roots) == 1 and not options.prefix:
        return ItemCorpus(uri, _items(roots[0], options))
    if options.snapshot is not None and len(roots) > 1:
        raise ConfigError("source.options.snapshot: it is the number of one output, and source.uri names several")
    names = [root.rpartition("/")[2] for root in roots]
    if twice := next((name for name in names if names.count(name) > 1), None):
        same = " and ".join(root for root, name in zip(roots, names, strict=True) if name == twice)
        raise ConfigError(f"source.uri: {same} have one name, with which paths begin; rename the folder of one")
    if options.prefix and (odd := next((name for name in names if not re.fullmatch(KEY_PATTERN, name)), None)):
        raise ConfigError(
            f"source.options.prefix: the folder {odd!r} would be part of keys, which have only the characters A-Z a-z "
            "0-9 _ -; rename it"
        )
    outputs = (_items(root, options, name) for root, name in zip(roots, names, strict=True))
    return ItemCorpus(uri, MergedItems(tuple(outputs), is_prefixed=options.prefix))


def _roots(uri: str) -> list[str]:
    """The outputs that `source.uri` names, with commas between them."""
    if Path(whole := absolute(uri)).exists():
        return [whole]
    parts = pieces(uri)
    if is_url(uri) and (wrong := next((part for part in parts if not is_url(part) and not part.startswith("/")), None)):
        raise ConfigError(f"source.uri: {wrong}: write an absolute path, as other outputs are URLs")
    return [absolute(part) for part in parts]


def _real(place: str) -> str:
    """A place without links and slashes at its end, to compare it with another one."""
    whole = absolute(place)
    return whole.rstrip("/") if is_url(whole) else str(Path(whole).resolve())


def _items(root: str, options: OutputOptions, name: str = "") -> OutputItems:
    """The samples of an output. Raises `ConfigError` if it lacks the snapshot, view or split."""
    storage = open_storage(root)
    numbers = snapshot_numbers(storage.at(AUDIO))
    if not numbers:
        raise ConfigError(f"source.uri {root}: expected an output of Headrace with a snapshot of audio; build it first")
    if options.view is None:
        number, view = options.snapshot or numbers[-1], None
    else:
        view, found = _view_of(storage, options)
        number = found.audio_snapshot
    snapshot = read_snapshot(storage.at(AUDIO), number).snapshot
    if options.split is not None and options.split not in snapshot.splits:
        has = ", ".join(snapshot.splits)
        raise ConfigError(f"source.options.split: {root} has no split {options.split!r}; it has {has}")
    return OutputItems(root, number, view, options, name)


def _view_of(storage: Storage, options: OutputOptions) -> tuple[int, ViewSnapshot]:
    """The newest snapshot of the view, or the newest that is of the wanted audio snapshot."""
    folder = storage.at(f"{VIEWS}/{options.view}")
    for number in reversed(snapshot_numbers(folder)):
        found = read_view(folder, number).snapshot
        if options.snapshot in {None, found.audio_snapshot}:
            return number, found
    of = "" if options.snapshot is None else f" of the audio snapshot {options.snapshot}"
    raise ConfigError(f"source.options.view: {storage.uri} has no snapshot of a view {options.view!r}{of}")


KIND = SourceKind(_open, OutputOptions)
