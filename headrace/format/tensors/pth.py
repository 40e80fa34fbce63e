"""Reads and writes latents as the `.pth` file of a sample, and finds their raw values in it.

A `.pth` holds `torch.save({"encoder_hidden": tensor (T, D), "encoder_length": int})`, which `stored_latents` reads from
anybody's file, or the named outputs of an encoder, which `stored_outputs` reads. `latent_facts` and `output_facts` also
find the tensors' values in it as plain bytes, so that a reader with an index can copy them without unpickling.
`saved_outputs` writes the file.
"""

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from headrace.checksums import crc32
from headrace.errors import FormatError, IntegrityError
from headrace.format.tensors.outputs import Output
from headrace.format.tensors.tensors import TENSOR_DTYPES, TensorPlace
from headrace.format.tensors.unpickling import FORM, described, is_dense, unpickled
from headrace.output_kinds import INTEGER_DTYPES

if TYPE_CHECKING:
    import torch

_DTYPES = frozenset(
    ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
) | {"uint64", "bool"}
_LOCAL_HEADER_BYTES = 30  # of a zip member, before its name and extra field (PKWARE APPNOTE 4.3.7)


@dataclass(frozen=True, slots=True)
class RawTensor:
    """Place of the values of a stored tensor, the name of their dtype, and their CRC-32."""

    place: TensorPlace
    dtype: str
    crc32: int


@dataclass(frozen=True, slots=True)
class LatentFacts:
    """Facts of a `.pth` of latents: the number of valid frames; the raw tensor, or None if its bytes are not plain."""

    encoder_length: int
    tensor: RawTensor | None


@dataclass(frozen=True, slots=True)
class SavedOutputs:
    """A `.pth` file, and in it the values of each of its tensors, row by row and little-endian."""

    blob: bytes
    tensors: tuple[RawTensor, ...]


def stored_latents(blob: bytes) -> tuple["torch.Tensor", int]:
    """Latents (T, D) in their stored dtype, and `encoder_length`, from 0 to T. See `latents_of`.

    Raises:
        FormatError: the file is damaged, would run code, or holds something else.
    """
    return latents_of(unpickled(blob))


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
    is_float = str(hidden.dtype).removeprefix("torch.") in TENSOR_DTYPES
    return LatentFacts(length, _raw_tensor(blob, hidden) if is_float else None)


def saved_outputs(outputs: Sequence[Output], tensors: "Sequence[torch.Tensor]") -> SavedOutputs:
    """The `.pth` of the outputs of one sample; equal values give equal bytes.

    Args:
        outputs: the outputs.
        tensors: the values of each, (T, D) on the CPU and in its dtype; (1, D) of a vector, which is stored as (D,);
            (K, D) of K vectors.

    Raises:
        FormatError: this version of torch does not store the values as they are, in one member of the zip for each.
    """
    import torch

    exact = [_compact(tensor) for tensor in tensors]
    content: dict[str, Any] = {}
    for output, tensor in zip(outputs, exact, strict=True):
        content[output.name] = tensor if output.has_time or len(tensor) > 1 else tensor[0]
        content |= {output.length_name: len(tensor)} if output.has_time else {}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    blob = buffer.getvalue()
    spans = list(_plain_storages(blob))
    if [stop - start for start, stop in spans] != [tensor.nbytes for tensor in exact]:
        raise FormatError(f"torch {torch.__version__} writes .pth files in a form that headrace does not know")
    view = memoryview(blob)
    raw = (
        RawTensor(TensorPlace(*span, *tensor.shape), output.dtype, crc32(view[slice(*span)]))
        for output, span, tensor in zip(outputs, spans, exact, strict=True)
    )
    return SavedOutputs(blob, tuple(raw))


def stored_outputs(blob: bytes, outputs: Sequence[Output]) -> "list[torch.Tensor]":
    """The values of named outputs in a `.pth`, (T, D) each, (1, D) of a vector, (K, D) of K vectors.

    Raises:
        FormatError: the file is damaged, would run code, or does not hold these outputs.
    """
    content = unpickled(blob)
    found = [_as_rows(content, output) for output in outputs] if isinstance(content, dict) else [None]
    tensors = [tensor for tensor in found if tensor is not None]
    if len(tensors) < len(found):
        wanted = ", ".join(f"{output.name} ({output.kind.value} of {output.dtype})" for output in outputs)
        raise FormatError(f".pth holds {described(content)}, expected {wanted}: build or fetch the shard again")
    return tensors


def verified_outputs(blob: bytes, outputs: Sequence[Output]) -> "list[torch.Tensor]":
    """The values of a `.pth` whose bytes agree with the checksums that its zip holds of them; see `stored_outputs`.

    Raises:
        FormatError: see `stored_outputs`.
        IntegrityError: a checksum is wrong.
    """
    _check_zip(blob)
    return stored_outputs(blob, outputs)


def output_facts(blob: bytes, outputs: Sequence[Output]) -> list[RawTensor] | None:
    """The raw tensor of each named output of a `.pth`; None if it does not hold them as plain bytes."""
    try:
        tensors = stored_outputs(blob, outputs)
    except FormatError:
        return None
    found: list[RawTensor] = []
    for tensor in tensors:
        if (raw := _raw_tensor(blob, tensor, [known.place.start for known in found])) is None:
            return None
        found.append(raw)
    return found


def _as_rows(content: dict[object, Any], output: Output) -> "torch.Tensor | None":
    """The value of an output as (T, D), (1, D) of a vector, or (K, D) of several; None if form or length is wrong."""
    import torch

    value = content.get(output.name)
    dims = {2} if output.has_time else {1, 1 + output.is_choice}
    if not isinstance(value, torch.Tensor) or not is_dense(value) or value.ndim not in dims:
        return None
    if str(value.dtype).removeprefix("torch.") != output.dtype:
        return None
    if output.has_time and content.get(output.length_name) != len(value):
        return None
    return value.detach() if value.ndim == 2 else value.detach()[None]


def _compact(tensor: "torch.Tensor") -> "torch.Tensor":
    """The tensor with a storage of its own: of a view, torch.save writes the whole storage."""
    exact = tensor.contiguous()
    return exact.clone() if exact.untyped_storage().nbytes() != exact.nbytes else exact


def _check_zip(blob: bytes) -> None:
    """Raise an error unless the bytes of a `.pth` agree with the checksums that its zip holds of them."""
    try:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            damaged = archive.testzip()
    except zipfile.BadZipFile as error:
        raise FormatError(f".pth damaged, or not written by torch.save ({error})") from error
    if damaged is not None:
        raise IntegrityError(f".pth damaged: the CRC-32 of {damaged} is wrong")


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


def _raw_tensor(blob: bytes, hidden: "torch.Tensor", taken: Sequence[int] = ()) -> RawTensor | None:
    """Place of a tensor's values in a torch.save archive; None if no member holds exactly these bytes.

    Bytes are compared, because the storage of a tensor may be strided, shared with others or byte-swapped. A storage
    that begins at a byte in `taken` is that of another tensor.
    """
    import torch

    dtype = str(hidden.dtype).removeprefix("torch.")
    if dtype not in (*TENSOR_DTYPES, *INTEGER_DTYPES) or not zipfile.is_zipfile(io.BytesIO(blob)):
        return None
    values = hidden.contiguous().view(torch.uint8).numpy().tobytes() if hidden.numel() else b""
    for start, stop in _plain_storages(blob):
        if start not in taken and blob[start:stop] == values:
            return RawTensor(TensorPlace(start, stop, *hidden.shape), dtype, crc32(values))
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
