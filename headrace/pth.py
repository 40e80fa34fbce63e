"""What a `.pth` of a shard holds: latents, unpickled without running any code of the file.

Owns the form, `torch.save({"encoder_hidden": (T, D), "encoder_length": int})`, and saying what else was found. Where
the tensor's bytes lie in the file is `indexing`'s.
"""

import io
import pickle
import re
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError

if TYPE_CHECKING:
    import torch

_FORM = 'torch.save({"encoder_hidden": tensor (T, D), "encoder_length": int}, file)'
_GLOBAL = re.compile(r"GLOBAL (\S+)")  # in torch's words for what it refuses


def unpickled(blob: bytes) -> Any:  # noqa: ANN401 - whatever was saved
    """What `torch.save` was given: tensors, numbers, strings, and lists and dicts of them.

    Raises:
        FormatError: it holds anything else, which might run code, or is damaged.
    """
    import torch

    try:
        return torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = _GLOBAL.search(str(error))
        what = found[1].rstrip(".") if found else "what a plain torch.save does not write"
        # Not chained: torch's own words advise to load it all the same, code and all.
        raise FormatError(
            f".pth refused: it holds {what}, and only tensors and plain values load without running code of the file; "
            f"write it with {_FORM}"
        ) from None
    except Exception as error:  # torch raises what it likes on strange bytes
        reason = str(error).partition(". ")[0] or type(error).__name__
        raise FormatError(f".pth damaged, or none of torch.save ({reason}); fetch or build it again") from error


def stored_latents(blob: bytes) -> tuple["torch.Tensor", int]:
    """Latents (T, D) in their stored dtype, and `encoder_length`.

    Raises:
        FormatError: the file is damaged, would run code, or holds something else.
    """
    import torch

    content = unpickled(blob)
    hidden = content.get("encoder_hidden") if isinstance(content, dict) else None
    length = content.get("encoder_length") if isinstance(content, dict) else None
    try:
        if isinstance(hidden, torch.Tensor) and hidden.ndim == 2 and length is not None:
            return hidden, int(length)
    except (TypeError, ValueError, RuntimeError):  # a length that is no number
        pass
    raise FormatError(f".pth holds {_shown(content)}, expected latents: write it with {_FORM}")


def _shown(content: object) -> str:
    """A value in a few words."""
    import torch

    if isinstance(content, torch.Tensor):
        return f"a tensor {tuple(content.shape)}"
    if isinstance(content, dict):
        named = [f"{name}: {_shown(value)}" for name, value in list(content.items())[:5]]
        return f"a dict of {', '.join(named) or 'nothing'}"
    return f"a {type(content).__name__}"
