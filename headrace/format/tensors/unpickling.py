"""Loads what `torch.save` wrote, without running any code of the file.

Files come from anybody's data sets, so three things are checked before their content is used: the pickle holds tensors
and plain values alone, the zip does not decompress to more than its own size, and no tensor is much larger than the
file. The storages of a file of old torch, which is no zip, have no more values than the file has bytes behind its
pickle: torch allocates them before it reads their values.
"""

import io
import pickle
import pickletools
import re
import zipfile
from collections import deque
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError

if TYPE_CHECKING:
    import torch

FORM = 'torch.save({"encoder_hidden": dense tensor (T, D) of real numbers, "encoder_length": int}, file)'
"""Form of a `.pth` of latents, for messages."""
_ZIP = b"PK\x03\x04"
_BROADCAST_BYTES = 16 << 20  # by which a tensor may be larger than its file: small tensors may be expanded ones
_MEMO = {"PUT", "BINPUT", "LONG_BINPUT"}  # of what is on the stack, which stays as it is
_GETS = {"GET", "BINGET", "LONG_BINGET"}
_GLOBAL = re.compile(r"GLOBAL (\S+)")  # in torch's message about a pickle that it refuses


def unpickled(blob: bytes) -> Any:  # noqa: ANN401 - whatever was saved
    """The value that `torch.save` wrote: tensors, numbers and strings, and lists and dicts of them.

    Raises:
        FormatError: it holds anything else, which might run code; it is damaged; or it would take far more memory than
            the size of the file.
    """
    import torch

    _check_packing(blob)
    _check_storages(blob)
    try:
        content = torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = _GLOBAL.search(str(error))
        what = found[1].rstrip(".") if found else "a value that torch.save does not write of plain values"
        # Not chained: torch's own message advises to load the file with its code.
        raise FormatError(
            f".pth rejected: it holds {what}, and only tensors and plain values load without running code of the file; "
            f"write it with {FORM}"
        ) from None
    except Exception as error:  # torch raises many kinds of errors on strange bytes
        reason = str(error).partition(". ")[0] or type(error).__name__
        raise FormatError(f".pth damaged, or not written by torch.save ({reason}); fetch or build it again") from error
    _check_sizes(content, len(blob))
    return content


def is_dense(tensor: "torch.Tensor") -> bool:
    """Whether a tensor has a value in memory for each of its elements; a nested one has not even a shape."""
    import torch

    return not (tensor.is_nested or tensor.is_quantized or tensor.is_meta) and tensor.layout is torch.strided


def _check_packing(blob: bytes) -> None:
    """Raise `FormatError` for a zip that decompresses to more than its own size: torch.save compresses nothing."""
    if blob[:4] != _ZIP:
        return
    try:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            unpacked = sum(info.file_size for info in archive.infolist())
    except Exception as error:  # zipfile raises many kinds of errors on strange bytes
        raise FormatError(f".pth damaged, or not written by torch.save ({error}); fetch or build it again") from error
    if unpacked > len(blob):
        raise FormatError(
            f".pth rejected: its {len(blob)} bytes unpack to {unpacked}, and torch.save compresses nothing; write it "
            f"with {FORM}"
        )


def _check_storages(blob: bytes) -> None:
    """Raise `FormatError` for a file of old torch whose storages have more values than the file has bytes for them."""
    if blob[:4] == _ZIP:
        return
    file = io.BytesIO(blob)
    try:
        for _ in range(3):  # magic number, version, byte order
            deque(pickletools.genops(file), maxlen=0)
        wanted = sum(_storages(file).values())
    except Exception as error:  # pickletools raises many kinds of errors on strange bytes
        raise FormatError(f".pth damaged, or not written by torch.save ({error}); fetch or build it again") from error
    if wanted > (there := len(blob) - file.tell()):
        raise FormatError(
            f".pth rejected: its tensors have {wanted} values, and {there} bytes follow; fetch or build it again"
        )


def _storages(file: io.BytesIO) -> dict[str, int]:
    """The number of values of each storage by its key, from the pickle of old torch at the position of a file.

    A storage is the operation BINPERSID after the tuple ("storage", its class, key, device, number of values, None).
    Any other is a `ValueError`, so that no number is missed.
    """
    found, memo, last = dict[str, int](), dict[int, Any](), deque[tuple[str, Any]](maxlen=8)
    for operation, argument, _ in pickletools.genops(file):
        if operation.name in _MEMO:
            memo[int(argument or 0)] = last[-1][1] if last else None
            continue
        if operation.name in {"BINPERSID", "PERSID"}:
            names, values = zip(*last, strict=True)
            key, count = values[3], values[5]
            if (names[0], *names[6:], type(key), type(count)) != ("MARK", "NONE", "TUPLE", str, int):
                raise ValueError("a storage is described in an unknown form")
            found[key] = max(count, found.get(key, 0))
        is_literal = operation.stack_after and not operation.stack_before
        value = memo.get(int(argument or 0)) if operation.name in _GETS else argument if is_literal else None
        last.append((operation.name, value))
    return found


def _check_sizes(content: object, num_bytes: int) -> None:
    """Raise `FormatError` for a tensor much larger than its file: with strides of 0, four bytes become petabytes."""
    import torch

    pending = [content]
    while pending:
        found = pending.pop()
        if isinstance(found, dict):
            pending.extend(found.values())
        elif isinstance(found, list | tuple):
            pending.extend(found)
        elif isinstance(found, torch.Tensor) and is_dense(found) and found.nbytes > num_bytes + _BROADCAST_BYTES:
            raise FormatError(
                f".pth rejected: it holds {described(found)}, {found.nbytes} bytes made of a file of {num_bytes} by "
                f"strides {found.stride()}; call .contiguous() before {FORM}"
            )


def described(content: object) -> str:
    """A value in a few words, for messages."""
    import torch

    if isinstance(content, torch.Tensor):
        return _described_tensor(content)
    if isinstance(content, dict):
        named = [f"{name}: {described(value)}" for name, value in list(content.items())[:5]]
        return f"a dict of {', '.join(named) or 'nothing'}"
    if content is None or isinstance(content, bool | int | float):
        return repr(content)
    return f"a value of type {type(content).__name__}"


def _described_tensor(tensor: "torch.Tensor") -> str:
    """The shape and dtype of a tensor, and its kind if it is not a plain one."""
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:
        return f"a nested tensor of {dtype}"
    layout = "" if tensor.layout is torch.strided else f"{str(tensor.layout).removeprefix('torch.')} "
    return f"a {'meta ' if tensor.is_meta else layout}tensor {tuple(tensor.shape)} of {dtype}"
