"""Reads and packs the keys that were planned for each shard of a partition: what keeps a sample in its shard.

They are a text file beside the partition's newest manifest: one key per line, and an empty line between shards. Only a
build that plans the partition again, and the checks of it, read this file. Rejected samples are listed, too, so that
they keep their place. Behind each key of audio is the sample's audio digest (`headrace.assemble.taken_over`), by which
a build finds audio that it need not encode again.
"""

import contextlib
import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.errors import FormatError, HeadraceError, NotFoundError
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import Manifest, NumberedManifest, keys_path
from headrace.stores.refetch import read_sound
from headrace.stores.storage import Storage

_log = logging.getLogger(__name__)


class PlannedKey(NamedTuple):
    """The key of a planned sample, and its audio digest; empty if that is not known."""

    key: str
    audio: str = ""

    @property
    def line(self) -> str:
        """The key's line in the file."""
        return f"{self.key} {self.audio}" if self.audio else self.key


def pack_keys(shards: Iterable[Sequence[str]]) -> bytes:
    """The content of the file, given the lines of each shard, in the order of the manifest: `PlannedKey.line`."""
    return ("\n\n".join("\n".join(keys) for keys in shards) + "\n").encode()


def digest_of(blob: bytes) -> str:
    """SHA-256 (hex) of the file's content: `Manifest.keys`."""
    return hashlib.sha256(blob).hexdigest()


def read_planned_keys(storage: Storage, numbered: NumberedManifest) -> list[list[str]]:
    """The keys of `read_planned`."""
    return [[entry.key for entry in shard] for shard in read_planned(storage, numbered)]


def read_planned(storage: Storage, numbered: NumberedManifest) -> list[list[PlannedKey]]:
    """The keys planned for each shard of a manifest, in its order.

    If the file is missing, they are those of the shards' indexes, without audio digests: written samples keep their
    places, rejected ones do not.

    Raises:
        FormatError: the file is damaged.
    """
    manifest = numbered.manifest
    path = keys_path(manifest.partition, numbered.number, manifest.keys)
    if manifest.keys:
        try:
            return read_sound(storage, path, lambda blob, name: _parsed(blob, name, manifest))
        except NotFoundError:
            _log.warning("%s/%s: missing; the places of samples are taken from the indexes", storage.uri, path)
    return [[PlannedKey(key) for key in _written_keys(storage, shard.name)] for shard in manifest.shards]


def keys_fault(storage: Storage, numbered: NumberedManifest) -> str | None:
    """Describe the fault in the file of planned keys of a manifest, if there is one."""
    manifest = numbered.manifest
    path = keys_path(manifest.partition, numbered.number, manifest.keys)
    try:
        if manifest.keys:
            read_sound(storage, path, lambda blob, name: _parsed(blob, name, manifest))
    except NotFoundError:
        return f"{storage.uri}/{path}: missing; restore it, or rejected samples lose their places in their shards"
    except HeadraceError as error:
        return str(error)
    return None


def _parsed(blob: bytes, name: str, manifest: Manifest) -> list[list[PlannedKey]]:
    if digest_of(blob) != manifest.keys:
        raise FormatError(
            f"{name}: does not have the digest in its manifest; `headrace verify` says whether the stored file itself "
            "is damaged; if so, restore it from a copy, or delete it: the next build takes the keys from the indexes"
        )
    try:
        text = blob.decode()
    except ValueError as error:
        raise FormatError(f"{name}: not text in UTF-8 ({error}); build again") from error
    groups = [group.split("\n") for group in text.removesuffix("\n").split("\n\n")] if manifest.shards else []
    if len(groups) != len(manifest.shards):
        raise FormatError(f"{name}: lists {len(groups)} shards, its manifest {len(manifest.shards)}; build again")
    return [[PlannedKey(*line.split(" ", 1)) for line in group] for group in groups]


def _written_keys(storage: Storage, shard: str) -> list[str]:
    with contextlib.suppress(HeadraceError):  # a shard that is lost is made from new samples
        return read_index(storage, shard).keys()
    return []
