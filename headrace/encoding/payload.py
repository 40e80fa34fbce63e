"""The `<key>.pth` of a latent sample, and where its raw numbers lie.

Owns that one format: `torch.save({"encoder_hidden": (T, D), "encoder_length": int})`, which any reader loads with
`weights_only=True`, and the byte range of the tensor inside it, which our loader reads without unpickling. Equal
latents give equal bytes: torch writes zip members stored, in a fixed order, without times.
"""

import io
import zipfile
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.encoding.plans import LatentDtype
from headrace.errors import FormatError

_LOCAL_HEADER_BYTES = 30  # of a zip member, before its name and extra field (PKWARE APPNOTE 4.3.7)


def torch_dtype(name: LatentDtype) -> torch.dtype:
    """The value of torch for a dtype's name."""
    return {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}[name]


@dataclass(frozen=True, slots=True)
class LatentPayload:
    """A `.pth` file and the half-open range of the raw tensor, (T, D) row by row, little-endian, inside it."""

    blob: bytes
    start: int
    stop: int


def encode_payload(hidden: Tensor) -> LatentPayload:
    """The `.pth` of latents (T, D) on the CPU."""
    exact = hidden.contiguous()
    if exact.untyped_storage().nbytes() != exact.numel() * exact.element_size():
        exact = exact.clone()  # a view would drag its whole storage into the file
    buffer = io.BytesIO()
    torch.save({"encoder_hidden": exact, "encoder_length": exact.shape[0]}, buffer)
    blob = buffer.getvalue()
    start = _tensor_start(blob)
    return LatentPayload(blob, start, start + exact.numel() * exact.element_size())


def _tensor_start(blob: bytes) -> int:
    """Where the bytes of the only tensor begin.

    Raises:
        FormatError: torch did not store them as they are, in one member.
    """
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        found = [info for info in archive.infolist() if info.filename.endswith("/data/0")]
    if len(found) != 1 or found[0].compress_type != zipfile.ZIP_STORED:
        raise FormatError(f"torch {torch.__version__} writes .pth files in a form that headrace does not know")
    header = found[0].header_offset
    name_bytes = int.from_bytes(blob[header + 26 : header + 28], "little")
    extra_bytes = int.from_bytes(blob[header + 28 : header + 30], "little")
    return header + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
