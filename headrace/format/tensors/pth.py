"""Reads and writes latents as the `.pth` file of a sample, and finds their raw values in it.

A `.pth` holds `torch.save({"encoder_hidden": tensor (T, D), "encoder_length": int})`. `stored_latents` reads any such
file. `latent_facts` also finds the tensor's values in it as plain bytes, so that a reader with an index can copy them
without unpickling. `saved_latents` writes the file.
"""

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from headrace.errors import FormatError, IntegrityError
from headrace.format.tensors.tensors import TENSOR_DTYPES, TensorPlace
from headrace.format.tensors.unpickling import FORM, described, is_dense, unpickled

if TYPE_CHECKING:
    import torch

_DTYPES = frozenset(
    ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
) | {"uint64", "bool"}
_LOCAL_HEADER_BYTES = 30  # of a zip member, before its name and extra field (PKWARE APPNOTE 4.3.7)


@dataclass(frozen=True, slots=True)
class RawTensor:
    """Place of the values of a stored (T, D) tensor, and the name of their dtype."""

    place: TensorPlace
    dtype: str


@dataclass(frozen=True, slots=True)
class LatentFacts:
    """Facts of a `.pth` of latents: the number of valid frames; the raw tensor, or None if its bytes are not plain."""

    encoder_length: int
    tensor: RawTensor | None


@dataclass(frozen=True, slots=True)
class SavedLatents:
    """A `.pth` file, and the place in it of the values of its tensor (T, D), row by row and little-endian."""

    blob: bytes
    place: TensorPlace


def stored_latents(blob: bytes) -> tuple["torch.Tensor", int]:
    """Latents (T, D) in their stored dtype, and `encoder_length`, from 0 to T. See `latents_of`.

    Raises:
        FormatError: the file is damaged, would run code, or holds something else.
    """
    return latents_of(unpickled(blob))


def verified_latents(blob: bytes) -> "torch.Tensor":
    """Latents (T, D) of a `.pth` whose bytes agree with the checksums that its zip holds of them.

    Raises:
        FormatError: see `stored_latents`.
        IntegrityError: a checksum is wrong.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            damaged = archive.testzip()
    except zipfile.BadZipFile as error:
        raise FormatError(f".pth damaged, or not written by torch.save ({error})") from error
    if damaged is not None:
        raise IntegrityError(f".pth damaged: the CRC-32 of {damaged} is wrong")
    return stored_latents(blob)[0]


def latents_of(content: object) -> tuple["torch.Tensor", int]:
    """Latents (T, D) and `encoder_length` from the unpickled content of a `.pth`.

    The tensor is dense, on the CPU and without gradient; its rows may be strided or share memory.

    Raises:
        FormatError: `encoder_hidden` is not a dense (T, D) tensor of real numbers, or `encoder_length` is not a whole
            number from 0 to T.
    """
    hidden = content.get("encoder_hidden") if isinstance(content, dict) else None
    length = _whole(content.get("encoder_length")) if isinstance(content, dict) else None
    if not _is_latents(hidden) or length is None:
        raise FormatError(f".pth holds {described(content)}, expected latents: write it with {FORM}")
    check_length(length, len(hidden))
    return hidden.detach().resolve_neg(), length


def check_length(encoder_length: int, num_frames: int) -> None:
    """Raise `FormatError` if `encoder_length` is not from 0 to `num_frames`."""
    if not 0 <= encoder_length <= num_frames:
        raise FormatError(
            f".pth: encoder_length is {encoder_length}, encoder_hidden has {num_frames} frames: expected 0 to "
            f"{num_frames}; write it again"
        )


def latent_facts(blob: bytes) -> LatentFacts | None:
    """Length and raw tensor of a `.pth` of latents; None for anything else, also for one that would run code."""
    try:
        hidden, length = stored_latents(blob)
    except FormatError:
        return None
    return LatentFacts(length, _raw_tensor(blob, hidden))


def saved_latents(hidden: "torch.Tensor") -> SavedLatents:
    """The `.pth` of latents (T, D) on the CPU, in a dtype of `TENSOR_DTYPES`; equal latents give equal bytes.

    Raises:
        FormatError: this version of torch does not store the values as they are, in one member of the zip.
    """
    import torch

    exact = hidden.contiguous()
    if exact.untyped_storage().nbytes() != exact.nbytes:
        exact = exact.clone()  # of a view, torch.save writes the whole storage
    buffer = io.BytesIO()
    torch.save({"encoder_hidden": exact, "encoder_length": len(exact)}, buffer)
    blob = buffer.getvalue()
    spans = list(_plain_storages(blob))
    if [stop - start for start, stop in spans] != [exact.nbytes]:
        raise FormatError(f"torch {torch.__version__} writes .pth files in a form that headrace does not know")
    return SavedLatents(blob, TensorPlace(*spans[0], *exact.shape))


def _is_latents(value: object) -> "TypeGuard[torch.Tensor]":
    """Whether a value is a dense (T, D) tensor of real numbers that numpy can hold, or bfloat16."""
    import torch

    if not isinstance(value, torch.Tensor) or not is_dense(value):
        return False
    return value.ndim == 2 and str(value.dtype).removeprefix("torch.") in _DTYPES


def _whole(value: Any) -> int | None:  # noqa: ANN401 - whatever was saved
    """A whole number, or a tensor of one whole number, as an int; None for anything else, such as 5.5 and True."""
    import torch

    if isinstance(value, torch.Tensor):
        value = value.item() if is_dense(value) and value.numel() == 1 else None
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_whole and not isinstance(value, bool) else None


def _raw_tensor(blob: bytes, hidden: "torch.Tensor") -> RawTensor | None:
    """Place of a tensor's values in a torch.save archive; None if no member holds exactly these bytes.

    Bytes are compared, because the storage of a tensor may be strided, shared with others or byte-swapped.
    """
    import torch

    dtype = str(hidden.dtype).removeprefix("torch.")
    if dtype not in TENSOR_DTYPES or not zipfile.is_zipfile(io.BytesIO(blob)):
        return None
    values = hidden.contiguous().view(torch.uint8).numpy().tobytes() if hidden.numel() else b""
    for start, stop in _plain_storages(blob):
        if blob[start:stop] == values:
            return RawTensor(TensorPlace(start, stop, *hidden.shape), dtype)
    return None


def _plain_storages(blob: bytes) -> Iterator[tuple[int, int]]:
    """Byte ranges of the tensor storages in a torch.save archive (zip members `…/data/0`) that are not compressed."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        for member in archive.infolist():
            if member.compress_type == zipfile.ZIP_STORED and member.filename.rpartition("/")[0].endswith("/data"):
                header = member.header_offset
                name_bytes = int.from_bytes(blob[header + 26 : header + 28], "little")
                extra_bytes = int.from_bytes(blob[header + 28 : header + 30], "little")
                start = header + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
                yield start, start + member.file_size
