"""Makes obstore usable in forked processes: each forked process loads its own copy of the library.

Borrowed ground: this module leans on details of obstore, CPython and Linux that none of them promises.

- Leans on: obstore's compiled module being `obstore._obstore`, one file that can be loaded a second time under another
  file name, with a tokio runtime of its own; `ctypes.pythonapi.Py_IncRef`, to keep inherited objects from being freed;
  `os.memfd_create` and `/proc/PID/fd`, to load the copy from memory.
- Why: obstore has one runtime per loaded library. A forked child inherits the runtime's data without its threads, and
  shares its epoll descriptor with the parent: requests in the child wait forever, and the parent receives events with
  pointers of the child and crashes. So a child must neither use nor free anything of obstore that it inherits.
- Missing public way: obstore has no call that stops, restarts or replaces its runtime, before or after a fork.
- Breaks first on an upgrade: tests/streaming/test_forks.py, which forks workers from a process that has read a store.

docs/design/0023 has the decision and what was turned down.
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
    """Finds obstore's library for a forked process: a copy, because Python never loads the same file twice.

    The copy is made when the package obstore is looked up, before any of it is loaded. If that fails, every thread that
    imports obstore gets the error. After a later failure, Python would give a half-imported obstore to waiting threads.
    """

    def __init__(self) -> None:
        self._copy: str | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`.

        Raises:
            ConfigError: this system has no files in memory, or does not allow them.
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
    """Make sure that forked children do not free `client`: freeing it takes locks of its runtime."""
    _clients[id(client)] = client


def _copy_of_library(package: ModuleSpec) -> str | None:
    """File name of a copy for this process; None if the package has no such library. Raises `ConfigError`."""
    library = PathFinder.find_spec(_LIBRARY, package.submodule_search_locations)
    if library is None or library.origin is None:
        return None
    try:
        return _copied(Path(library.origin))
    except (AttributeError, OSError) as error:
        raise ConfigError(
            "this process was forked from one that uses obstore, whose threads do not survive a fork, and it cannot "
            f"load a copy of obstore for itself ({error}): pass multiprocessing_context='forkserver' to the DataLoader"
        ) from error


def _copied(library: Path) -> str:
    """File name of a copy in memory, which lasts as long as this process."""
    descriptor = os.memfd_create("obstore")
    with library.open("rb") as source, open(descriptor, "wb", closefd=False) as copy:
        shutil.copyfileobj(source, copy, _PIECE_BYTES)
    return f"/proc/{os.getpid()}/fd/{descriptor}"  # with the process id: a name is loaded only once


def _loaded() -> list[str]:
    """The modules of obstore. Without any, the others' names are not looked at: each costs a forked child a page."""
    if _PACKAGE not in sys.modules and _LIBRARY not in sys.modules:
        return []
    return [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]


def _renew() -> None:
    """Remove the parent's obstore from the modules, so that the next import loads this process's own copy."""
    names = _loaded()
    for inherited in (*_clients.values(), *(sys.modules.pop(name) for name in names)):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
    _clients.clear()
    if names and _own_copy not in sys.meta_path:
        sys.meta_path.insert(0, _own_copy)


os.register_at_fork(after_in_child=_renew)
