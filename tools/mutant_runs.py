"""Runs the tests of a module with its mutants, each in a process of its own.

The processes are forked from this one, which has imported what is slow to import and nothing of Headrace. They import
a mutant's text instead of the module's file, so that no file of the checkout changes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import os
import resource
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import CodeType

    from tools.mutating import Mutant

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 8 << 30
"""Bytes of memory that a mutant may use: some allocate without end."""


class Outcome(StrEnum):
    """Outcome of a module's tests on a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Tests:
    """A module and the test files that are run for it, relative to the repository's root."""

    path: str
    files: Sequence[str]

    def run(self, source: str | None, folder: Path) -> int:
        """The exit status of pytest with `source` in place of the module's text. Changes this process for good.

        The module's own doctests are run as well.
        """
        import pytest  # noqa: PLC0415 - see `prepare`

        if source is not None:
            replace(ROOT / self.path, source)
        sys.dont_write_bytecode = True
        plugins = ["-p", "_hypothesis_pytestplugin", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
        options = [*plugins, "-x", "-q", "--tb=line", "--assert=plain", "--hypothesis-profile", "mutants"]
        doctests = [self.path] if ">>> " in (ROOT / self.path).read_text() else []
        return pytest.main([*options, "-m", "not slow and not gpu", f"--basetemp={folder}", *self.files, *doctests])


def replace(path: Path, source: str) -> None:
    """Let imports of the file `path` find `source`, by whatever name and link they find the file."""
    found = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        here = Path(loader.get_filename(name))
        if here.name == path.name and here.resolve() == path:
            return compile(source, str(here), "exec", dont_inherit=True)
        return found(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def prepare(modules: Iterable[str]) -> None:
    """Import what all tests share, once. Python threads do not survive a fork, so none may start here."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(ROOT))
    for name in ("pytest", "hypothesis", "_hypothesis_pytestplugin", "pytest_timeout", *modules):
        importlib.import_module(name)
    from hypothesis import Phase, settings  # noqa: PLC0415

    # Fewer examples than in `make test`, and no search for a smaller one: the first that fails is enough.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", deadline=None, derandomize=True, max_examples=25, phases=phases)
    gc.collect()
    gc.freeze()  # pytest collects garbage several times a run; nothing that is imported here is


class Runs:
    """Tests with mutants, in up to `jobs` processes at once. Output goes to files in `folder`."""

    def __init__(self, tests: Tests, folder: Path, limit: float) -> None:
        self._tests, self._folder, self._limit = tests, folder, limit
        self._running: dict[int, tuple[Mutant | None, float]] = {}

    def start(self, mutant: Mutant | None) -> None:
        """Start the tests with `mutant`, or without any change."""
        if not (pid := os.fork()):
            self._child(mutant)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)  # the child does so as well, but may be too late for the limit
        self._running[pid] = mutant, time.monotonic() + self._limit

    def ended(self, most: int) -> Iterator[tuple[Mutant | None, Outcome]]:
        """Wait until at most `most` are running; those that ended and how."""
        while len(self._running) > most:
            time.sleep(0.01)
            for pid, (mutant, end) in list(self._running.items()):
                late = time.monotonic() > end
                if late:
                    _end_group(pid)
                ended, status = os.waitpid(pid, 0 if late else os.WNOHANG)
                if ended:
                    _end_group(pid)  # what the tests have started
                    del self._running[pid]
                    yield mutant, Outcome.TIMEOUT if late else Outcome.KILLED if status else Outcome.SURVIVED

    def _child(self, mutant: Mutant | None) -> None:
        status = 70
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            log = os.open(self._folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(log, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            status = self._tests.run(mutant and mutant.source, self._folder / f"t{os.getpid()}")
        finally:
            os._exit(status)


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def seconds_unchanged(tests: Tests) -> float:
    """Duration of the tests without a change.

    Raises:
        SystemExit: They fail.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        runs, start = Runs(tests, Path(folder), limit=300), time.monotonic()
        runs.start(None)
        (((_, outcome)),) = runs.ended(0)
        if outcome is not Outcome.SURVIVED:
            print(Path(folder, "output.txt").read_text(), file=sys.stderr)
            print(f"{tests.path}: its tests do not pass without a change ({outcome}).", file=sys.stderr)
            sys.exit(2)
        return time.monotonic() - start


def outcomes(tests: Tests, chosen: Iterable[Mutant], jobs: int) -> Iterator[tuple[Mutant, Outcome]]:
    """Each of `chosen` with its outcome. One may take 5 s, and four times what the tests take without a change."""
    limit = 5 + 4 * seconds_unchanged(tests)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        runs = Runs(tests, Path(folder), limit)
        for mutant in chosen:
            runs.start(mutant)
            yield from runs.ended(jobs - 1)
        yield from runs.ended(0)
