"""Decodes the files of other people's samples by their extensions, as WebDataset's `.decode("rgb8")` does.

Nothing is unpickled: arrays of objects and `.pth` files that `weights_only=True` rejects are errors, and other formats
stay bytes. Audio, latents and the sample's JSON are decoded by `decode`.
"""

import importlib.util
import io
import math
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import FormatError
from headrace.format.tensors.unpickling import unpickled
from headrace.format.typed_json import json_value

Bytes = bytes | memoryview
MOST_BYTES = 1 << 28
"""Limit of the memory for the content of a compressed file (an image, `.npz`)."""
IMAGES = frozenset({"bmp", "gif", "jpeg", "jpg", "pbm", "pgm", "png", "pnm", "ppm", "tif", "tiff", "webp"})
"""Extensions of images, which are decoded if Pillow is installed."""


def decoded(name: str, data: bytes) -> Any:  # noqa: ANN401 - what the file holds
    """The content of a file by the last part of its field's name; its bytes for an unknown extension.

    >>> decoded("cls", b"7"), decoded("en.txt", b"seven"), decoded("bin", b"7")
    (7, 'seven', b'7')

    Raises:
        FormatError: the content is not what the extension says.
    """
    extension = name.rpartition(".")[2]
    decode = _DECODERS.get(extension)
    if decode is None and extension in IMAGES and _has_pillow():
        decode = _image
    if decode is None:
        return data
    try:
        return decode(data)
    except Exception as error:  # libraries raise all kinds of errors for invalid files
        raise FormatError(
            f"its .{name} cannot be decoded ({type(error).__name__}: {error}): write it again, or pass decode='none', "
            "which gives its bytes"
        ) from error


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _array(data: Bytes) -> Any:  # noqa: ANN401 - an array of any dtype
    file = io.BytesIO(data)
    is_first = np.lib.format.read_magic(file) == (1, 0)
    read_header = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    there = len(data) - file.tell()
    if (wanted := math.prod(shape) * max(dtype.itemsize, 1)) > there and not dtype.hasobject:
        raise ValueError(f"an array of {shape} {dtype} needs {wanted} bytes, the file has {there}")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _arrays(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        _check_size(sum(info.file_size for info in archive.infolist()))
        files = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    is_array = np.lib.format.MAGIC_PREFIX
    return {name: _array(blob) if blob.startswith(is_array) else blob for name, blob in files.items()}


def _image(data: bytes) -> Any:  # noqa: ANN401 - uint8 (height, width, 3)
    from PIL import Image  # noqa: PLC0415 - not a dependency

    with Image.open(io.BytesIO(data)) as image:
        _check_size(3 * math.prod(image.size))
        return np.array(image.convert("RGB"))


def _check_size(num_bytes: int) -> None:
    """Raise `ValueError` if the content of a compressed file would take more memory than `MOST_BYTES`."""
    if num_bytes > MOST_BYTES:
        raise ValueError(f"it would take {num_bytes} bytes of memory, at most {MOST_BYTES} are allowed")


def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


_DECODERS: dict[str, Callable[[bytes], Any]] = (
    dict.fromkeys(("txt", "text", "transcript"), _text)
    | dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int)
    | dict.fromkeys(("json", "jsn"), json_value)
    | {"npy": _array, "npz": _arrays, "pth": unpickled}
)
