"""Re-reading shards to prove that they are what everything that names them says.

Owns the deep comparison: every byte of every tar against its digest, its index made again from the tar, counts in
`sizes.json`, snapshot and manifests, and some samples decoded. It changes nothing. The shallow comparison that every
build makes is `audit`'s.
"""

import hashlib
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import numpy as np

from headrace.audio import decode
from headrace.audit import snapshot_faults
from headrace.errors import HeadraceError, NotFoundError
from headrace.index import ShardIndex, index_name, payload
from headrace.indexing import audio_field, index_tar, latent_facts
from headrace.manifests import numbered_files, parsed_name, versioned_json
from headrace.ordered import map_in_order
from headrace.outputs import Part, find_parts
from headrace.shardlists import Shard, resolve_shards
from headrace.snapshots import NumberedSnapshot, ShardTable, read_table
from headrace.storage import Storage, open_storage
from headrace.streaming.batches.columns import JSON_FIELD
from headrace.streaming.batches.decode import parsed
from headrace.streaming.shards.finding import is_pattern
from headrace.streaming.shards.unpacking import ZIP_SUFFIXES, unpacker_of
from headrace.tar import sha256_of

_PIECE_BYTES = 1 << 20
_DIGEST_LENGTH = 12  # hex digits of the digest in a shard's name


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is off: which object, and in what way."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Depth:
    """How hard to look.

    Attributes:
        num_threads: shards read at a time.
        samples_per_shard: samples decoded of each shard, chosen at random but always the same ones.
    """

    num_threads: int = 1
    samples_per_shard: int = 1


@dataclass(slots=True)
class Verdict:
    """What verifying came to.

    Attributes:
        faults: everything that is off; empty when all is well.
        num_shards: shards read.
        num_samples: samples in them.
        num_bytes: bytes read.
        num_decoded: samples decoded.
    """

    faults: list[Fault] = field(default_factory=list)
    num_shards: int = 0
    num_samples: int = 0
    num_bytes: int = 0
    num_decoded: int = 0


@dataclass(frozen=True, slots=True)
class CheckedShard:
    """What reading one shard showed."""

    shard: Shard
    num_samples: int
    num_bytes: int
    num_decoded: int
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be verified: shards to read, and what was found without reading any."""

    shards: tuple[Shard, ...]
    faults: tuple[Fault, ...]


def find_target(path: str) -> Target:
    """The shards behind an output, a shard folder, or any WebDataset; and the faults of what names them.

    Raises:
        NotFoundError: nothing is there.
    """
    parts = [] if is_pattern(path) else find_parts(open_storage(path))
    if not parts:
        return Target(tuple(resolve_shards(path)), ())
    shards: list[Shard] = []
    faults: list[Fault] = []
    for part in parts:
        found = _target_of_part(part)
        shards += found.shards
        faults += found.faults
    return Target(tuple(shards), tuple(faults))


def verify(
    target: Target,
    depth: Depth,
    progress: Callable[[CheckedShard], None] = lambda shard: None,  # noqa: ARG005
) -> Verdict:
    """Read every shard of the target.

    Memory is bounded by one shard's index and one sample per thread; a compressed tar is unpacked into a file.
    """
    verdict = Verdict(list(target.faults))
    with ThreadPoolExecutor(depth.num_threads, "verify") as pool:
        window = 2 * depth.num_threads
        for checked in map_in_order(pool, lambda shard: _check_shard(shard, depth), target.shards, window=window):
            progress(checked)
            verdict.faults += checked.faults
            verdict.num_shards += 1
            verdict.num_samples += checked.num_samples
            verdict.num_bytes += checked.num_bytes
            verdict.num_decoded += checked.num_decoded
    return verdict


def _target_of_part(part: Part) -> Target:
    """The newest snapshot's shards; faults of every snapshot and of what the newest one is made of."""
    faults: list[Fault] = []
    newest: tuple[NumberedSnapshot, ShardTable] | None = None
    for number in part.numbers:
        name = f"{part.storage.uri}/snapshots/{number:08d}.json"
        try:
            numbered = part.snapshot(number)
            newest = numbered, read_table(part.storage, numbered.snapshot)
        except HeadraceError as error:
            newest = None
            faults.append(Fault(name, str(error)))
    if newest is None:
        return Target((), tuple(faults))
    numbered, table = newest
    counts = table.num_samples.tolist()
    shards = [Shard(part.storage, name, count) for name, count in zip(table.names(), counts, strict=True)]
    faults += _faults_of_names(part.storage, numbered, table)
    return Target(tuple(shards), tuple(faults))


def _faults_of_names(storage: Storage, numbered: NumberedSnapshot, table: ShardTable) -> Iterator[Fault]:
    """Where `sizes.json`, totals, manifests and the table of a snapshot disagree."""
    try:
        yield from (Fault(storage.uri, fault) for fault in snapshot_faults(storage, numbered.snapshot))
    except NotFoundError:
        yield Fault(f"{storage.uri}/sizes.json", "missing; the next build writes it")
    except (ValueError, AttributeError, TypeError) as error:
        yield Fault(f"{storage.uri}/sizes.json", f"not an object of counts ({error}); the next build mends it")
    where = f"{storage.uri}/snapshots/{numbered.number:08d}.json"
    if numbered.snapshot.num_samples != int(table.num_samples.sum()):
        yield Fault(where, f"totals say {numbered.snapshot.num_samples} samples, its table {table.num_samples.sum()}")
    named = _named_by_manifests(storage, numbered)
    if isinstance(named, Fault):
        yield named
    elif named != set(table.names()):
        yield Fault(where, f"its manifests and its table name other shards: {sorted(named ^ set(table.names()))[:3]}")


def _named_by_manifests(storage: Storage, numbered: NumberedSnapshot) -> set[str] | Fault:
    """Shards with samples, as the manifests that a snapshot froze name them."""
    paths = {(path.split("/")[-2], number): path for number, path in numbered_files(storage, "manifests/")}
    names: set[str] = set()
    for partition, number in numbered.snapshot.manifests.items():
        path = paths.get((partition, number))
        if path is None:
            return Fault(f"{storage.uri}/manifests/{partition}", f"manifest {number} is missing; restore it")
        try:
            content = versioned_json(storage.read(path), path, "headrace_manifest")
            names |= {shard["name"] for shard in content["shards"] if shard["num_samples"]}
        except (HeadraceError, KeyError, TypeError) as error:
            return Fault(f"{storage.uri}/{path}", str(error))
    return names


def _check_shard(shard: Shard, depth: Depth) -> CheckedShard:
    """Read one shard from its first byte to its last."""
    if shard.storage is None:
        return CheckedShard(shard, 0, 0, 0, (Fault(shard.url, "cannot be verified: not a file or an object"),))
    faults: list[str] = []
    num_samples = num_bytes = num_decoded = 0
    try:
        num_bytes = shard.storage.size(shard.name)
        with _opened_tar(shard.storage, shard.name) as (file, sha256):
            faults += _faults_of_digest(shard, sha256)
            found = index_tar(file, shard.name.rpartition("/")[2], num_bytes=num_bytes, sha256=sha256)
            num_samples = len(found)
            faults += _faults_of_index(shard, found)
            rows = _chosen(num_samples, depth.samples_per_shard, shard.name)
            faults += [fault for row in rows for fault in _faults_of_sample(file, found, row)]
            num_decoded = len(rows)
    except (HeadraceError, OSError) as error:
        faults.append(str(error))
    if shard.num_samples is not None and not faults and num_samples != shard.num_samples:
        faults.append(f"{num_samples} samples in the tar, {shard.num_samples} promised")
    return CheckedShard(shard, num_samples, num_bytes, num_decoded, tuple(Fault(shard.url, what) for what in faults))


@contextmanager
def _opened_tar(storage: Storage, name: str) -> Iterator[tuple[BinaryIO, str]]:
    """The tar, unpacked if it is compressed, and the SHA-256 (hex) of the stored bytes. Raises `IntegrityError`."""
    with storage.open(name) as file:
        if not name.endswith(ZIP_SUFFIXES):
            yield file, sha256_of(file)
            return
        digest, unpacker = hashlib.sha256(), unpacker_of(name)
        with tempfile.TemporaryFile() as plain:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                plain.writelines(unpacker.unpacked(piece))
            unpacker.finish()
            yield cast("BinaryIO", plain), digest.hexdigest()


def _faults_of_digest(shard: Shard, sha256: str) -> Iterator[str]:
    """Of a shard that we named: whether its bytes are those of its name."""
    try:
        digest = parsed_name(shard.name.rpartition("/")[2])["digest"]
    except HeadraceError:
        return
    if not sha256.startswith(digest):
        yield (
            f"the bytes have the digest {sha256[:_DIGEST_LENGTH]}, the name says {digest}: the shard was changed;"
            " remove it and its .idx, and build again"
        )


def _faults_of_index(shard: Shard, found: ShardIndex) -> Iterator[str]:
    """Where the `.idx` beside a shard differs from the one that the tar gives."""
    storage, path = shard.storage, index_name(shard.name)
    if storage is None or not storage.exists(path):
        if shard.num_samples is not None and storage is not None and _is_ours(shard.name):
            yield "its .idx is missing; build again"
        return
    try:
        stored = ShardIndex.from_bytes(storage.read(path), path)
    except HeadraceError as error:
        yield str(error)
        return
    if stored.sha256 and stored.sha256 != found.sha256:
        yield f".idx: says digest {stored.sha256[:_DIGEST_LENGTH]}, the tar has {found.sha256[:_DIGEST_LENGTH]}"
    for name in ("shard", "num_bytes", "fields", "tensor_dtype"):
        if getattr(stored, name) != getattr(found, name):
            yield f".idx: {name} is {getattr(stored, name)!r}, the tar has {getattr(found, name)!r}"
    if stored.keys() != found.keys():
        yield f".idx: lists {len(stored)} samples, the tar holds {len(found)}; or other keys, or another order"
        return
    for name in ("ranges", "num_frames", "sample_rate_hz", "num_channels", "tensors"):
        theirs, ours = getattr(stored, name), getattr(found, name)
        if theirs.shape == ours.shape and not np.array_equal(theirs, ours):
            row = int(np.argwhere((theirs != ours).reshape(len(ours), -1).any(1))[0, 0])
            yield f".idx: {name} of {found.key(row)} is {theirs[row].tolist()}, the tar has {ours[row].tolist()}"


def _is_ours(name: str) -> bool:
    try:
        parsed_name(name.rpartition("/")[2])
    except HeadraceError:
        return False
    return True


def _chosen(num_samples: int, wanted: int, seed: str) -> Sequence[int]:
    """Which samples of a shard to decode."""
    return sorted(random.Random(seed).sample(range(num_samples), min(wanted, num_samples)))  # noqa: S311 - no secret


def _faults_of_sample(file: BinaryIO, index: ShardIndex, row: int) -> Iterator[str]:
    """Whether a sample decodes to what its index says, and its JSON is JSON."""
    fields = [name for name in index.fields if index.range_of(row, name)]
    audio, key = audio_field(tuple(fields)), index.key(row)
    if span := index.range_of(row, JSON_FIELD):
        try:
            parsed(payload(file, span))
        except ValueError as error:
            yield f"{key}.{JSON_FIELD}: not JSON ({error}); write the shard again"
    try:
        if audio is not None and (span := index.range_of(row, audio)):
            samples, rate = decode(payload(file, span))
            found = (samples.shape[1], samples.shape[0], rate)
            wanted = (int(index.num_frames[row]), int(index.num_channels[row]), int(index.sample_rate_hz[row]))
            if found != wanted:
                yield f"{key}.{audio}: decodes to (frames, channels, rate) {found}, the header says {wanted}"
            elif not np.isfinite(samples).all():
                yield f"{key}.{audio}: holds values that are not finite"
        elif (span := index.range_of(row, "pth")) and latent_facts(payload(file, span)) is None:
            yield f"{key}.pth: not latents that load with weights_only=True"
    except HeadraceError as error:
        yield f"{key}.{audio}: {error}"
