"""Making the index of a tar that is there already: anybody's WebDataset, or one of ours whose index is in doubt.

Owns what an index says beyond names and byte ranges, read from each sample's own bytes: the length, rate and channels
of audio from its header, the shape of stored latents and where their raw bytes lie. It writes nothing and decodes no
audio; a field that it does not understand is indexed by its byte range alone.
"""

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from headrace.audio import flac_info, probe
from headrace.errors import AudioError, FormatError
from headrace.index import SampleEntry, ShardIndex, TensorPlace, build_index, group_members, payload
from headrace.pth import stored_latents
from headrace.tar import read_members

if TYPE_CHECKING:
    import torch

AUDIO_FIELDS = ("flac", "wav", "ogg", "opus", "mp3", "aiff", "aif", "aifc", "au", "caf", "w64", "rf64", "m4a")
"""Fields that hold audio, by the last extension of their name; the first one that a sample has is its audio."""
LATENT_FIELD = "pth"

_FLAC_HEAD_BYTES = 64  # marker and STREAMINFO, which must come first
_LOCAL_HEADER_BYTES = 30  # of a zip member, before its name and extra field
_TENSOR_DTYPES = ("float16", "bfloat16", "float32")


def index_tar(file: BinaryIO, name: str, *, num_bytes: int, sha256: str = "") -> ShardIndex:
    """The index of a tar, read from the tar alone.

    A sample whose audio or latents cannot be understood is in the index with unknown lengths: reading it is what
    reports its fault.

    Args:
        file: the archive, seekable.
        name: its file name, kept in the index and used in messages.
        num_bytes: its size, kept in the index.
        sha256: its digest, where the caller knows it.

    Raises:
        FormatError: not a tar, cut off, or not a WebDataset (files of one sample are not neighbours).
    """
    described = [_described(file, entry) for entry in group_members(read_members(file, name), name)]
    dtypes = [tensor.dtype for _, tensor in described if tensor is not None]
    dtype = dtypes[0] if dtypes else ""
    entries = [
        replace(entry, tensor=tensor.place) if tensor is not None and tensor.dtype == dtype else entry
        for entry, tensor in described
    ]
    return build_index(entries, shard=name, num_bytes=num_bytes, sha256=sha256, tensor_dtype=dtype)


def audio_field(fields: Iterator[str] | tuple[str, ...]) -> str | None:
    """Which of a sample's fields is its audio (`flac`, also `mic.flac`); None when it has none."""
    names = sorted(fields, key=lambda name: (name.count("."), name))
    for extension in AUDIO_FIELDS:
        for name in names:
            if name.rpartition(".")[2] == extension:
                return name
    return None


@dataclass(frozen=True, slots=True)
class RawTensor:
    """Where the bytes of a stored (T, D) tensor lie: byte range and shape; and their dtype by name."""

    place: TensorPlace
    dtype: str


@dataclass(frozen=True, slots=True)
class LatentFacts:
    """What a `.pth` of latents holds: the length that counts, and the raw tensor in the payload if it lies plain."""

    encoder_length: int
    tensor: RawTensor | None


def latent_facts(blob: bytes) -> LatentFacts | None:
    """Facts of a `torch.save({"encoder_hidden": (T, D), "encoder_length": int})`; None for anything else.

    Unpickles with `weights_only=True`: a payload that would run code gives None.
    """
    try:
        hidden, length = stored_latents(blob)
    except FormatError:
        return None
    return LatentFacts(length, _raw_tensor(blob, hidden))


def _described(file: BinaryIO, entry: SampleEntry) -> tuple[SampleEntry, RawTensor | None]:
    """The entry with its facts, and the raw tensor with its place in the tar."""
    name = audio_field(tuple(entry.ranges))
    if name is not None:
        return _with_audio(file, entry, name), None
    if LATENT_FIELD not in entry.ranges:
        return entry, None
    start, stop = entry.ranges[LATENT_FIELD]
    facts = latent_facts(payload(file, (start, stop)))
    if facts is None:
        return entry, None
    tensor = facts.tensor
    if tensor is not None:
        tensor = RawTensor(tensor.place.after(start), tensor.dtype)
    return replace(entry, num_frames=facts.encoder_length), tensor


def _with_audio(file: BinaryIO, entry: SampleEntry, name: str) -> SampleEntry:
    start, stop = entry.ranges[name]
    try:
        head = payload(file, (start, min(stop, start + _FLAC_HEAD_BYTES)))
        if head[:4] == b"fLaC":
            num_frames, rate, channels, _ = flac_info(head)
        else:
            info = probe(io.BytesIO(payload(file, (start, stop))), num_bytes=stop - start)
            num_frames, rate, channels = info.num_frames, info.sample_rate_hz, info.num_channels
    except AudioError:
        return entry
    if num_frames <= 0:  # a FLAC stream whose writer could not know its length
        return replace(entry, sample_rate_hz=rate, num_channels=channels)
    return replace(entry, num_frames=num_frames, sample_rate_hz=rate, num_channels=channels)


def _raw_tensor(blob: bytes, hidden: "torch.Tensor") -> RawTensor | None:
    """Where a tensor's values lie in what torch.save wrote: an uncompressed zip member (`…/data/0`).

    The bytes found are compared with the tensor's, so a strided, shared or byte-swapped storage is never mistaken.
    """
    import torch

    dtype = str(hidden.dtype).removeprefix("torch.")
    if dtype not in _TENSOR_DTYPES or not zipfile.is_zipfile(io.BytesIO(blob)):
        return None
    values = hidden.contiguous().view(torch.uint8).numpy().tobytes() if hidden.numel() else b""
    for start, stop in _stored_storages(blob):
        if blob[start:stop] == values:
            return RawTensor(TensorPlace(start, stop, *hidden.shape), dtype)
    return None


def _stored_storages(blob: bytes) -> Iterator[tuple[int, int]]:
    """Byte ranges of the tensor storages in a torch.save archive that lie there uncompressed."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        for member in archive.infolist():
            if member.compress_type == zipfile.ZIP_STORED and member.filename.rpartition("/")[0].endswith("/data"):
                header = member.header_offset
                name_bytes = int.from_bytes(blob[header + 26 : header + 28], "little")
                extra_bytes = int.from_bytes(blob[header + 28 : header + 30], "little")
                start = header + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
                yield start, start + member.file_size
