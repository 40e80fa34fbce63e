"""Device, torch, cuDNN and compilation that computed the latents of a shard, which change results by rounding.

It is a note in the shard's index, and in the manifest for all its shards. No digest covers it: shards with the same
bytes have the same names, and manifests that name the same shards the same digest, wherever they were made.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from headrace.errors import FormatError
from headrace.format import tables
from headrace.format.indexes.index import ShardIndex
from headrace.format.typed_json import json_value, typed

MADE_NOTE = "made"
_FIELD = re.compile(rb',\n "made": ')
_CHECKSUM = re.compile(rb'"crc32": "([0-9a-f]{8})"')


@dataclass(frozen=True, slots=True, order=True)
class MadeBy:
    """Device and software that computed latents.

    Attributes:
        device: `cpu`, or the names of the GPUs.
        torch: version of torch.
        cudnn: version of cuDNN; empty on a CPU.
        compile: whether the network ran through `torch.compile`.
    """

    device: str
    torch: str
    cudnn: str = ""
    compile: bool = False

    def __str__(self) -> str:
        """The facts in words."""
        cudnn = f", cuDNN {self.cudnn}" if self.cudnn else ""
        return f"{self.device}, torch {self.torch}{cudnn}{', compiled' if self.compile else ''}"


@dataclass(frozen=True, slots=True)
class MadeShards:
    """Shards that the same device and software made, or a part of them.

    Attributes:
        by: device and software.
        shards: positions of the shards in the manifest, ascending.
    """

    by: MadeBy
    shards: tuple[int, ...]


def as_note(makers: Iterable[MadeBy]) -> dict[str, str]:
    """The note of an index about what computed the latents of its shard."""
    return {MADE_NOTE: json.dumps([asdict(one) for one in sorted(set(makers))])}


def makers_of(index: ShardIndex) -> tuple[MadeBy, ...]:
    """Devices and software of the latents of a shard; empty if its index does not say them.

    Raises:
        FormatError: the note is damaged.
    """
    try:
        return typed(tuple[MadeBy, ...], json_value(index.notes.get(MADE_NOTE, "[]")))
    except ValueError as error:
        raise FormatError(f"{index.shard}: damaged index ({error}); {tables.WAY_OUT}") from error


def made_shards(indexes: Iterable[ShardIndex]) -> tuple[MadeShards, ...]:
    """Devices and software of the shards of a manifest, given their indexes in order."""
    found: dict[MadeBy, list[int]] = {}
    for place, index in enumerate(indexes):
        for by in makers_of(index):
            found.setdefault(by, []).append(place)
    return tuple(MadeShards(by, tuple(found[by])) for by in sorted(found))


def manifest_digest(blob: bytes) -> str:
    """SHA-256 (hex) of a manifest's bytes as they are without the field `made`, which is the last one."""
    if (field := _FIELD.search(blob)) is not None and (checksum := _CHECKSUM.search(blob)) is not None:
        start, stop = checksum.span(1)
        rest = blob[stop : field.start()] + b"\n}\n"
        crc32 = zlib.crc32(blob[:start] + b"0" * (stop - start) + rest)
        blob = blob[:start] + b"%08x" % crc32 + rest
    return hashlib.sha256(blob).hexdigest()
