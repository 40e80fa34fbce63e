"""Opens plain WebDatasets as shards to read, and indexes their tars on first use.

The indexes are kept in the cache folder. A compressed tar is unpacked to be indexed. Which tars there are is found by
`headrace.locate`.
"""

import contextlib
import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from headrace.errors import FileChangedError, FormatError, SampleCountError
from headrace.format.indexes.foreign_indexes import find_foreign_index
from headrace.format.indexes.index import VERSION_NOTE, ShardIndex
from headrace.format.indexes.index_files import find_index, is_outdated, parse_index
from headrace.format.indexes.indexing import index_tar, key_rule_of
from headrace.format.tars.member_names import KeyAt, Naming, audio_field
from headrace.format.tars.tar import sha256_of
from headrace.format.tars.tar_names import is_packed_tar
from headrace.format.tars.unpacking import opened_tar
from headrace.locate.no_shards import no_samples
from headrace.locate.tars import PlainTars
from headrace.stores.concurrent_requests import map_on_threads
from headrace.stores.ranged_files import opened_sparsely
from headrace.stores.refetch import is_local, until_sound
from headrace.stores.storage import Bucket, LocalStorage, Storage
from headrace.streaming.cache.opened import UNKNOWN_SIZE
from headrace.streaming.shards.shard_set import DataIdentity, ListedShards, ShardSet

_INDEXES_AT_ONCE = 8
_HEADERS_BYTES = 1600  # a header, a short JSON, and the header and first bytes of the next member


@dataclass(frozen=True, slots=True)
class IndexKeeper:
    """Reads or makes the indexes of the tars of a plain WebDataset (`ShardSet.load_index`).

    An index of Headrace beside its tar is used unless the tar was written after it; another tool's file is ignored. An
    index that is made here records the version of its tar as the note `VERSION_NOTE`.

    Attributes:
        folder: folder in which made indexes are kept; None keeps none.
        key_at: where keys end. An index beside a tar that was made with another rule is not used.
        versions: versions of the tars whose indexes were made here.
        audio_fields: names of the audio fields of the tars whose indexes were made here, where they are named.
        counts: number of samples of each tar by name, where known: the order of samples is computed from them.
        counted_by: where the counts come from, for messages.
        digests: SHA-256 of the tars when the data set was opened, where an index beside the tar has it.
        complaints: why an index could not be kept, after the warning; shared with keepers made from this one.
    """

    folder: Path | None
    key_at: KeyAt = KeyAt.FIRST_DOT
    versions: Mapping[str, str] = field(default_factory=dict)
    audio_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    counted_by: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list, compare=False)

    def __call__(self, storage: Storage, shard: str) -> ShardIndex:
        """The index of a shard: the one beside it if it has one, else one kept or made.

        Raises:
            SampleCountError: it has more or fewer samples than `counts` says.
            FileChangedError: the tar was written again since the data set was opened.
            FormatError: the shard is not a WebDataset, or the files of a sample look like several samples.
            IntegrityError: the shard is compressed and damaged.
        """
        index = self._found_or_made(storage, shard)
        expected = self.counts.get(shard, len(index))
        if expected != len(index):
            raise SampleCountError(
                f"{storage.uri}/{shard}: holds {len(index)} samples, {self.counted_by} says {expected}: fetch or build "
                "it again, or run `headrace index` if it was changed on purpose"
            )
        digest = self.digests.get(shard)
        if digest and digest != (index.sha256 or _digest_of(storage, shard)):
            raise FileChangedError(
                f"{storage.uri}/{shard}: was written again since the data set was opened; open it again"
            )
        return index

    def _found_or_made(self, storage: Storage, shard: str) -> ShardIndex:
        beside = None if shard in self.versions else find_index(storage, shard)
        if beside and key_rule_of(beside.index) != self.key_at:
            beside = None
        if beside and not is_outdated(storage, shard, beside):
            return beside.index
        audio_fields = beside.index.audio_fields if beside else self.audio_fields.get(shard, ())
        version = self.versions.get(shard) or storage.version(shard)
        kept = self._kept(storage, shard, version, audio_fields)
        if kept is not None and (found := _read_kept(kept)) is not None:
            return found
        current = storage.version(shard) if shard in self.versions else version  # before it is read
        made = until_sound(lambda source: self._made(source, shard, audio_fields), storage, f"{storage.uri}/{shard}")
        index = replace(made, notes=made.notes | {VERSION_NOTE: current})
        if kept is not None:
            self._keep(kept, index)
        return index

    def _made(self, storage: Storage, shard: str, audio_fields: tuple[str, ...]) -> ShardIndex:
        naming = Naming(self.key_at, audio_fields=audio_fields)
        if (made := _of_headers(storage, shard, naming)) is None:
            with opened_tar(storage, shard) as tar:
                is_free = not is_local(storage) or is_packed_tar(shard)  # all bytes are read anyway
                made = index_tar(tar.file, f"{storage.uri}/{shard}", naming=naming, has_checksums=is_free)
        return replace(made, shard=shard)

    def forget(self, storage: Storage, shard: str) -> None:
        """Delete a kept index that may have been made from damaged bytes."""
        with contextlib.suppress(OSError):
            version = self.versions.get(shard) or storage.version(shard)
            if (kept := self._kept(storage, shard, version, self.audio_fields.get(shard, ()))) is not None:
                kept.unlink()

    def _keep(self, path: Path, index: ShardIndex) -> None:
        """Keep an index for the next start; if the folder cannot be written, warn once."""
        try:
            LocalStorage(path.parent).write(path.name, index.to_bytes())
        except OSError as error:
            reason = str(error.__cause__ or error)
            if not self.complaints:
                self.complaints.append(reason)
                warnings.warn(
                    f"{path.parent}: no index can be kept there ({reason}), so every start and every process that "
                    "reads makes the indexes of its shards again by reading them: point local= to a folder that can be "
                    "written, or write indexes beside the shards with `headrace index`",
                    stacklevel=2,
                )

    def _kept(self, storage: Storage, shard: str, version: str, audio_fields: tuple[str, ...] = ()) -> Path | None:
        """Path of a kept index; its name depends on the version of the tar and on how names in it are read."""
        if self.folder is None:
            return None
        rules = "\0".join((self.key_at, *audio_fields))
        digest = hashlib.sha256(f"{storage.uri}\0{shard}\0{version}\0{rules}".encode()).hexdigest()
        return self.folder / f"{digest[:32]}.idx"


def _of_headers(storage: Storage, shard: str, naming: Naming) -> ShardIndex | None:
    """The index of a tar in a store from its headers alone, where an index of another tool says where they are.

    None without one, or if most of the tar would be read: then reading it from front to end gives checksums, too.
    """
    theirs = find_foreign_index(storage, shard)
    if theirs is None or not isinstance(storage, Bucket):
        return None
    with opened_sparsely(storage, shard, _HEADERS_BYTES) as file:
        if not theirs.plan(file, reads_members=False):
            return None
        made = index_tar(file, f"{storage.uri}/{shard}", naming=naming, has_checksums=False)
    theirs.compare(made)
    return made


def _read_kept(path: Path) -> ShardIndex | None:
    try:
        return parse_index(path.read_bytes(), str(path))
    except (OSError, FormatError):
        return None


def open_foreign(remote: str, split: str | None, tars: PlainTars, keeper: IndexKeeper) -> ShardSet:
    """The tars of a plain WebDataset as the shards of a stream, indexed where no `sizes.json` gives their counts.

    Args:
        remote: the name that the user gave.
        split: the split that was asked for; None for all.
        tars: what the name led to.
        keeper: reads or makes the indexes.

    Raises:
        FormatError: a shard is not a WebDataset, or no shard holds a sample.
        IntegrityError: a compressed shard is damaged.
    """
    storage, names = tars.storage, list(tars.names)
    counts = None if tars.counts is None else list(tars.counts)
    audio_fields: dict[str, tuple[str, ...]] = {}
    sizes, counted_by = [UNKNOWN_SIZE] * len(names), remote
    versions, digests = dict[str, str](), dict[str, str]()
    has_audio, samples = False, ""
    if counts is None:
        indexes = _index_all(storage, names, keeper)
        counts, sizes = [len(index) for index in indexes], [index.num_bytes for index in indexes]
        audio_fields = {n: i.audio_fields for n, i in zip(names, indexes, strict=True) if i.audio_fields}
        noted = {name: index.notes.get(VERSION_NOTE) for name, index in zip(names, indexes, strict=True)}
        versions = {name: version for name, version in noted.items() if version}
        digests = {name: index.sha256 for name, index in zip(names, indexes, strict=True) if index.sha256}
        counted_by = "what was there when the data set was opened"
        has_audio = any(index.audio_fields or audio_field(index.fields) for index in indexes)
        samples = _digest_of_samples(indexes)
    if not any(counts):
        raise no_samples(f"{storage.uri}/{names[0]}", len(names))
    by_name = dict(zip(names, counts, strict=True))
    keeper = replace(keeper, versions=versions, digests=digests, audio_fields=audio_fields)
    keeper = replace(keeper, counts=by_name, counted_by=counted_by)
    shards = ListedShards(tuple(names), np.array(counts, np.int32), np.array(sizes, np.int64))
    rule = [] if keeper.key_at is KeyAt.FIRST_DOT else [keeper.key_at]
    text = json.dumps([names, counts, sizes, samples, *rule])
    identity = DataIdentity(remote, split, tars.snapshot, hashlib.sha256(text.encode()).hexdigest(), keeper.key_at)
    return ShardSet(storage, shards, identity, keeper, has_audio=has_audio, lengths="" if samples else storage.uri)


def _digest_of(storage: Storage, shard: str) -> str:
    with storage.open(shard) as file:
        return sha256_of(file)


def _digest_of_samples(indexes: Sequence[ShardIndex]) -> str:
    """Digest of the keys and lengths of samples: tars of fixed block sizes that were written again may be as large."""
    digest = hashlib.sha256()
    for index in indexes:
        for numbers in (index.key_offsets, index.key_bytes, index.lengths, index.rates_hz):
            digest.update(numbers.tobytes())
    return digest.hexdigest()


def _index_all(storage: Storage, names: Sequence[str], keeper: IndexKeeper) -> list[ShardIndex]:
    found: list[ShardIndex] = []
    for start in range(0, len(names), _INDEXES_AT_ONCE):
        found += map_on_threads(lambda name: keeper(storage, name), names[start : start + _INDEXES_AT_ONCE], "index")
    return found
