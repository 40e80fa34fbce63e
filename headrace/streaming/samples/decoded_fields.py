"""Decodes the files of other people's samples by their extensions, as WebDataset's `.decode("rgb8")` does.

Nothing is unpickled: arrays of objects and `.pth` files that `weights_only=True` rejects are errors, and other formats
stay bytes. Audio, latents and the sample's JSON are decoded by `decode`.
"""

import importlib.util
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import FormatError

Bytes = bytes | memoryview
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


def _array(data: bytes) -> Any:  # noqa: ANN401 - an array of any dtype
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _arrays(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return dict(found)


def _tensors(data: bytes) -> Any:  # noqa: ANN401 - tensors in containers
    import torch

    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _image(data: bytes) -> Any:  # noqa: ANN401 - uint8 (height, width, 3)
    from PIL import Image  # noqa: PLC0415 - not a dependency

    with Image.open(io.BytesIO(data)) as image:
        return np.array(image.convert("RGB"))


def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


_DECODERS: dict[str, Callable[[bytes], Any]] = (
    dict.fromkeys(("txt", "text", "transcript"), _text)
    | dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int)
    | dict.fromkeys(("json", "jsn"), json.loads)
    | {"npy": _array, "npz": _arrays, "pth": _tensors}
)
