"""Reads one whole shard and compares it with everything that describes it.

Compared are the bytes with the digest in the shard's name, and the index with one made again from the tar; some samples
are decoded. Nothing is changed.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from headrace.audio import decode
from headrace.errors import HeadraceError
from headrace.format.indexes.index import ABSENT, AUDIO_COLUMN, COLUMNS, COLUMNS_SUFFIX, ShardIndex
from headrace.format.indexes.indexing import index_tar, key_rule_of, naming_of
from headrace.format.manifests.manifests import is_shard_name, parsed_name
from headrace.format.snapshots.tar_lists import is_current
from headrace.format.tars.member_names import JSON_FIELD, LATENT_FIELD, KeyAt
from headrace.format.tars.tar import payload
from headrace.format.tars.unpacking import opened_tar
from headrace.format.tensors.pth import latent_facts, output_facts
from headrace.locate.shard_list import LocatedShard
from headrace.stores.refetch import sources
from headrace.stores.storage import Storage
from headrace.streaming.batches.json_texts import parsed
from headrace.verification.columns_check import check_columns

_CHECKSUMS = ("crc32", "tensor_crc32")
_INDEX_AGAIN = "run `headrace index` again with the same arguments"
_DIGEST_LENGTH = 12  # hex digits of the digest in a shard's name


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the object (`where`), and what is wrong with it (`what`)."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Depth:
    """Numbers of shards to read at a time, and of samples to decode.

    Attributes:
        num_threads: number of shards read at a time.
        samples_per_shard: number of samples decoded of each shard, chosen at random but always the same ones.
    """

    num_threads: int = 1
    samples_per_shard: int = 1


@dataclass(frozen=True, slots=True)
class CheckedShard:
    """The result of reading one shard."""

    shard: LocatedShard
    num_samples: int
    num_bytes: int
    num_decoded: int
    faults: tuple[Fault, ...]


def check_shard(shard: LocatedShard, depth: Depth, key_at: KeyAt) -> CheckedShard:
    """Read a whole shard; in a store, a damaged one is read again before its faults are reported."""
    assert shard.storage is not None  # only lists of URLs hold shards that no store holds
    if shard.name.endswith(COLUMNS_SUFFIX):
        num_rows, num_bytes, faults = check_columns(shard)
        return CheckedShard(shard, num_rows, num_bytes, 0, tuple(Fault(shard.url, what) for what in faults))
    attempts = sources(shard.storage)
    checked = _read_shard(shard, next(attempts), depth, key_at)
    while checked.faults and (source := next(attempts, None)) is not None:
        checked = _read_shard(replace(shard, storage=source), source, depth, key_at)
    return checked


def _read_shard(shard: LocatedShard, storage: Storage, depth: Depth, key_at: KeyAt) -> CheckedShard:
    """Read one shard of `storage` once."""
    faults: list[str] = []
    num_samples = num_bytes = num_decoded = 0
    try:
        num_bytes = storage.size(shard.name)
        with opened_tar(storage, shard.name) as tar:
            sha256 = tar.stored_sha256()
            faults += _faults_of_digest(shard, sha256)
            stored, index_faults = _stored_index(shard)
            naming = naming_of(key_at, stored)
            name = shard.name.rpartition("/")[2]
            found = index_tar(tar.file, name, sha256=sha256, naming=naming)
            num_samples = len(found)
            faults += index_faults
            if stored is not None:
                faults += _faults_of_index(stored, found)
            rows = _chosen(num_samples, depth.samples_per_shard, shard.name)
            faults += [fault for row in rows for fault in _faults_of_sample(tar.file, found, row)]
            num_decoded = len(rows)
    except (HeadraceError, OSError) as error:
        faults.append(str(error))
    if shard.num_samples is not None and not faults and num_samples != shard.num_samples:
        faults.append(f"{num_samples} samples in the tar, its list says {shard.num_samples}")
    return CheckedShard(shard, num_samples, num_bytes, num_decoded, tuple(Fault(shard.url, what) for what in faults))


def _faults_of_digest(shard: LocatedShard, sha256: str) -> Iterator[str]:
    """Whether the bytes of a shard have the digest in its name, if a build named it."""
    try:
        digest = parsed_name(shard.name.rpartition("/")[2])["digest"]
    except HeadraceError:
        return
    if not sha256.startswith(digest):
        yield (
            f"the bytes have the digest {sha256[:_DIGEST_LENGTH]}, the name says {digest}: the shard was changed;"
            " remove it and its .idx, and build again"
        )


def _stored_index(shard: LocatedShard) -> tuple[ShardIndex | None, list[str]]:
    """The index of a shard, None if it is missing or damaged; and its faults."""
    try:
        stored = shard.index()
    except HeadraceError as error:
        return None, [str(error)]
    if stored is None and shard.num_samples is not None and is_shard_name(shard.name.rpartition("/")[2]):
        return None, ["its .idx is missing, or is another tool's file, which has to be moved away; build again"]
    if shard.indexes is None or shard.storage is None:
        return stored, []
    if stored is None:
        return None, [f"has no index in {shard.indexes.uri}: {_INDEX_AGAIN}"]
    is_same = is_current(shard.storage, shard.name, stored)
    return stored, [] if is_same else [f"was written again since it was indexed: {_INDEX_AGAIN}"]


def _faults_of_index(stored: ShardIndex, found: ShardIndex) -> Iterator[str]:
    """Differences between the `.idx` beside a shard and the index made from the tar."""
    if (rule := key_rule_of(stored)) != key_rule_of(found):
        yield f".idx: made with --key-at {rule}; verify it with that, or make it again with `headrace index`"
        return
    if stored.sha256 and stored.sha256 != found.sha256:
        yield f".idx: says digest {stored.sha256[:_DIGEST_LENGTH]}, the tar has {found.sha256[:_DIGEST_LENGTH]}"
    for name in ("shard", "num_bytes", "fields", "outputs", "rejected", "audio_fields"):
        if getattr(stored, name) != getattr(found, name):
            yield f".idx: {name} is {getattr(stored, name)!r}, the tar has {getattr(found, name)!r}"
    if stored.keys() != found.keys():
        yield f".idx: lists {len(stored)} samples, the tar holds {len(found)}; or other keys, or another order"
        return
    for name in (*COLUMNS[2:], AUDIO_COLUMN):
        theirs, ours = getattr(stored, name), getattr(found, name)
        if theirs is None or ours is None or theirs.shape != ours.shape:
            continue
        is_partial = name in _CHECKSUMS and not stored.sha256  # made from headers: it has the checksums of some members
        differs = (theirs != ours) & ~(is_partial & (theirs == ABSENT))
        if differs.any():
            row = int(np.argwhere(differs.reshape(len(ours), -1).any(1))[0, 0])
            yield f".idx: {name} of {found.key(row)} is {theirs[row].tolist()}, the tar has {ours[row].tolist()}"
    if stored.seeks is not None and not stored.seeks.equals(found.seeks):
        yield ".idx: its seek points are not those of the tar; index the tar again, or build the shard again"


def _chosen(num_samples: int, wanted: int, seed: str) -> Sequence[int]:
    """Rows of the samples to decode, at random but always the same for a seed."""
    return sorted(random.Random(seed).sample(range(num_samples), min(wanted, num_samples)))  # noqa: S311 - no secret


def _holds_latents(blob: bytes, index: ShardIndex) -> bool:
    """Whether a `.pth` holds the outputs of its index, or latents of anybody."""
    named = [output for output in index.outputs if output.is_named]
    return bool(output_facts(blob, named)) if named else latent_facts(blob) is not None


def _faults_of_sample(file: BinaryIO, index: ShardIndex, row: int) -> Iterator[str]:
    """Faults of a sample: its JSON is not valid, or its audio or latents do not decode to what the index says."""
    key = index.key(row)
    if span := index.range_of(row, JSON_FIELD):
        try:
            parsed(payload(file, span))
        except ValueError as error:
            yield f"{key}.{JSON_FIELD} is not valid JSON ({error}); write the shard again"
    audio = [found for name in index.audio_fields or ("",) if (found := index.audio_of(row, name)) is not None]
    for field in audio:
        wanted = (field.num_frames, field.num_channels, int(index.sample_rate_hz[row]))
        yield from _faults_of_audio(payload(file, field.span), f"{key}.{field.member}", wanted)
    if not audio and (span := index.range_of(row, LATENT_FIELD)):
        try:
            if not _holds_latents(payload(file, span), index):
                yield f"{key}.pth: does not hold latents that load with weights_only=True"
        except HeadraceError as error:
            yield f"{key}.pth: {error}"


def _faults_of_audio(blob: bytes, name: str, wanted: tuple[int, int, int]) -> Iterator[str]:
    """Faults of an audio file, whose header says `wanted` (frames, channels, rate)."""
    try:
        samples, rate = decode(blob)
    except HeadraceError as error:
        yield f"{name}: {error}"
        return
    found = (samples.shape[1], samples.shape[0], rate)
    if found != wanted:
        yield f"{name}: decodes to (frames, channels, rate) {found}, its header says {wanted}"
    elif not np.isfinite(samples).all():
        yield f"{name}: holds values that are not finite"
