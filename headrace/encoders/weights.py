"""Weight files: where an installed package keeps them, their digests, loading them without running anybody's code.

Owns the checks that every set of weights passes. Torch is imported only to load them.
"""

import functools
import hashlib
import importlib.util
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError, IntegrityError, MissingDependencyError

if TYPE_CHECKING:
    from torch import Tensor, nn


def packaged_file(package: str, path: str, install: str) -> Path:
    """A file inside an installed package, found without importing the package (its imports may not work here).

    Raises:
        MissingDependencyError: the package or the file is not there; the message says to run `install`.
    """
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        if (found := Path(place, path)).is_file():
            return found
    missing = f"has no {path}" if places else "is not installed"
    raise MissingDependencyError(f"the Python package {package} {missing}; its weights are needed: {install}")


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file; of an unchanged file it is computed once."""
    stat = path.stat()
    return _digest(path, (stat.st_size, stat.st_mtime_ns))


@functools.lru_cache(maxsize=256)
def _digest(path: Path, stamp: tuple[int, int]) -> str:  # noqa: ARG001 - part of the cache's key
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_state(path: Path) -> dict[str, "Tensor"]:
    """The tensors of a weights file, on the CPU. Nothing in the file is run.

    Raises:
        IntegrityError: the file holds anything but tensors (a pickle that would run code, say), is cut off, or a weight
            is not a finite number.
    """
    import torch  # noqa: PLC0415 - only to load weights

    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(f"{path}: refused, not a plain file of weights ({reason}); install it again") from error
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise IntegrityError(f"{path}: expected names and tensors, found {type(state).__name__}; install it again")
    check_finite(state, str(path))
    return dict(state)


def check_finite(state: Mapping[str, "Tensor"], name: str) -> None:
    """Refuse weights that would make every latent NaN.

    Raises:
        IntegrityError: a weight is not finite; the message names it.
    """
    for key, value in state.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise IntegrityError(f"{name}: the weight {key} holds numbers that are not finite; fetch the weights again")


def fill(network: "nn.Module", state: Mapping[str, "Tensor"], name: str) -> None:
    """Load the state into the network.

    Raises:
        FormatError: they do not fit.
    """
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        raise FormatError(f"{name}: these weights do not fit the network ({error})") from error
