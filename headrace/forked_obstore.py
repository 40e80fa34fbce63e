"""obstore in processes that were forked from one that had loaded it: each takes a copy of the library for itself.

Owns what happens to obstore at a fork (`docs/design/0023`); it knows nothing of stores. obstore has one tokio runtime
for each loaded copy of its library. A child inherits the runtime's data without its threads, and its epoll descriptor,
which it shares with the parent: the child waits forever, and the parent is handed pointers of the child's and crashes.
So a child touches nothing that it inherits of obstore: neither to use it nor to free it.
"""

import ctypes
import os
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from weakref import WeakValueDictionary

from headrace.errors import ConfigError

_PACKAGE = "obstore"
_LIBRARY = "obstore._obstore"
_PIECE_BYTES = 1 << 20


class _OwnCopy:
    """Finds obstore's library for a forked process: a copy, because a loaded file is never loaded again.

    The copy is made when obstore itself is looked for, before any of it is loaded: where that fails, every thread that
    imports it meets the error. After a failure further on, Python hands half of obstore to threads that waited.
    """

    def __init__(self) -> None:
        self._copy: str | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`.

        Raises:
            ConfigError: this system has no files in memory, or does not let them be made.
        """
        if name == _PACKAGE:
            package = PathFinder.find_spec(name, path, target)
            self._copy = _copy_of_library(package) if package is not None else None
        if name != _LIBRARY or self._copy is None:
            return None
        return spec_from_file_location(name, self._copy, loader=ExtensionFileLoader(name, self._copy))


_own_copy = _OwnCopy()
_clients: WeakValueDictionary[int, object] = WeakValueDictionary()  # by identity: they have no hash


def keep_over_forks(client: object) -> None:
    """Let a client be freed by this process alone: to free one takes locks of its runtime."""
    _clients[id(client)] = client


def _copy_of_library(package: ModuleSpec) -> str | None:
    """The name of a copy for this process; None where the package has no such library. Raises `ConfigError`."""
    library = PathFinder.find_spec(_LIBRARY, package.submodule_search_locations)
    if library is None or library.origin is None:
        return None
    try:
        return _copied(Path(library.origin))
    except (AttributeError, OSError) as error:
        raise ConfigError(
            "this process was forked from one that had loaded obstore, whose threads do not survive that, and "
            f"cannot load a copy for itself ({error}): pass multiprocessing_context='forkserver' to the DataLoader"
        ) from error


def _copied(library: Path) -> str:
    """A nameless file in memory with the same contents; it lives as long as this process."""
    descriptor = os.memfd_create("obstore")
    with library.open("rb") as source, open(descriptor, "wb", closefd=False) as copy:
        shutil.copyfileobj(source, copy, _PIECE_BYTES)
    return f"/proc/{os.getpid()}/fd/{descriptor}"  # with our number: a name that was loaded once is not loaded again


def _renew() -> None:
    """Forget the parent's obstore, so that the next import finds this process' own."""
    names = [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]
    for inherited in (*_clients.values(), *(sys.modules.pop(name) for name in names)):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
    _clients.clear()
    if names and _own_copy not in sys.meta_path:
        sys.meta_path.insert(0, _own_copy)


os.register_at_fork(after_in_child=_renew)
