"""`CorpusContract`: the tests that each kind of source has to pass."""

import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from headrace.errors import FileChangedError
from headrace.format.tars.tar import sha256_of
from headrace.sources.content_digests import DIGEST_PATTERN
from headrace.sources.listing import FileStamp
from headrace.sources.sources import Corpus

_SHA256_DIGITS = 64

Reads: TypeAlias = Callable[[Corpus, str, FileStamp], str]
"""Opens a recording, and returns a digest."""


class Change(NamedTuple):
    """Effect of `CorpusContract.change`.

    Attributes:
        changed: path of the recording that has other bytes now.
        beside: paths whose stamps may change although their bytes did not: those in the same file.
    """

    changed: str
    beside: frozenset[str] = frozenset()


class CorpusContract:
    """Tests of a corpus. Subclass it in a test module as `class TestMine(CorpusContract)` and write the methods.

    Each test gets pytest's `tmp_path`, an empty folder.
    """

    def write(self, folder: Path) -> None:
        """Write a sound corpus of at least two recordings into a folder."""
        raise NotImplementedError

    def opened(self, folder: Path) -> Corpus:
        """Open the corpus in a folder."""
        raise NotImplementedError

    def change(self, folder: Path) -> Change:
        """Give one recording other bytes, of another number or at another time."""
        raise NotImplementedError

    def harm(self, folder: Path) -> Mapping[str, str]:
        """Add entries that cannot be used, or spoil some. Returns path → code of each; may be empty."""
        raise NotImplementedError

    def test_listing_twice_gives_the_same_paths_and_stamps(self, tmp_path: Path) -> None:
        """A listing depends on the corpus alone, and has each path once."""
        self.write(tmp_path)
        first = self._listed(tmp_path)
        corpus = self.opened(tmp_path)
        assert isinstance(corpus.uri, str)
        assert sorted(_entries(corpus), key=str) == sorted(_entries(corpus), key=str), "the same corpus is listed again"
        assert len(first) > 1, "the contract needs at least two recordings"
        assert self._listed(tmp_path) == first
        assert all(code is None for _, code, _ in first.values()), "a sound corpus has no rejects"

    def test_each_file_opens_with_the_bytes_of_its_stamp_and_digest(self, tmp_path: Path) -> None:
        """The stamp has the number of bytes, and the digest is that of the bytes, from any position."""
        self.write(tmp_path)
        corpus = self.opened(tmp_path)
        for path, stamp in self._stamps(tmp_path).items():
            with corpus.open(path, stamp) as file:
                content = file.read()
                middle = len(content) // 2
                assert file.seek(middle) == middle
                assert file.read(5) == content[middle : middle + 5]
                assert file.seek(0) == 0
                digest = sha256_of(file)
            assert len(content) == stamp.num_bytes, path
            with corpus.open_digested(path, stamp) as opened:
                assert opened.file.read() == content
                assert re.fullmatch(DIGEST_PATTERN, opened.digest)
                assert opened.digest == digest or len(opened.digest) != _SHA256_DIGITS

    def test_files_open_in_any_order_from_threads_and_from_a_copy_of_the_corpus(self, tmp_path: Path) -> None:
        """Workers open files of a corpus that was sent to them, in any order."""
        self.write(tmp_path)
        stamps = self._stamps(tmp_path)
        wanted = self._digests(tmp_path)
        sent: Corpus = pickle.loads(pickle.dumps(self.opened(tmp_path)))  # noqa: S301 - its own
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda path: _digest(sent, path, stamps[path]), reversed(list(stamps))))
        assert dict(zip(reversed(list(stamps)), found, strict=True)) == wanted

    def test_a_changed_recording_has_another_stamp_and_others_stay(self, tmp_path: Path) -> None:
        """A change is seen by the stamp alone, and a file with an old stamp is not read as the listed one."""
        self.write(tmp_path)
        before, digests = self._stamps(tmp_path), self._digests(tmp_path)
        given = self._digests(tmp_path, _given_digest)
        changed, beside = self.change(tmp_path)
        after = self._stamps(tmp_path)
        assert after.keys() == before.keys()
        moved = {path for path in before if after[path] != before[path]}
        assert changed in moved <= {changed, *beside}
        now = self._digests(tmp_path)
        assert {path for path in before if now[path] != digests[path]} == {changed}
        assert self._digests(tmp_path, _given_digest)[changed] != given[changed]
        for read in (_digest, _given_digest):
            try:
                read(self.opened(tmp_path), changed, before[changed])
            except (FileChangedError, FileNotFoundError):
                continue
            raise AssertionError(f"{changed} was read with its old stamp")

    def test_entries_that_cannot_be_used_are_listed_with_code_and_reason(self, tmp_path: Path) -> None:
        """Nothing is left out in silence, and the other recordings stay usable."""
        self.write(tmp_path)
        sound = self._digests(tmp_path)
        codes = self.harm(tmp_path)
        listed = self._listed(tmp_path)
        assert {path: code for path, (_, code, _) in listed.items() if code is not None} == dict(codes)
        assert all(reason and stamp is None for stamp, code, reason in listed.values() if code is not None)
        others = {path: digest for path, digest in sound.items() if path not in codes}
        assert {path: digest for path, digest in self._digests(tmp_path).items() if path in others} == others

    def test_rows_name_listed_files_and_are_the_same_each_time(self, tmp_path: Path) -> None:
        """Rows have values of JSON; their paths are those of the listing."""
        self.write(tmp_path)
        rows = self.opened(tmp_path).rows()
        if rows is None:
            return
        first = list(rows.read())
        assert first, "a sound corpus has rows"
        assert json.dumps(list(rows.read()), allow_nan=False) == json.dumps(first)
        assert all(isinstance(name, str) for row in first for name in row)
        assert {row["path"] for row in first} <= set(self._stamps(tmp_path))
        again = self.opened(tmp_path).rows()
        assert again is not None
        assert rows.stamps() == again.stamps()
        assert any(stamp is not None for stamp in rows.stamps().values())

    def _listed(self, folder: Path) -> dict[str, tuple[FileStamp | None, str | None, str | None]]:
        """Path → stamp, code and reason."""
        found: dict[str, tuple[FileStamp | None, str | None, str | None]] = {}
        for path, *entry in _entries(self.opened(folder)):
            assert path not in found, f"{path} is listed twice"
            found[path] = _entry(*entry)
        return found

    def _stamps(self, folder: Path) -> dict[str, FileStamp]:
        """Path → stamp of the entries that can be opened."""
        listed = self._listed(folder)
        return {path: stamp for path, (stamp, code, _) in listed.items() if code is None and stamp is not None}

    def _digests(self, folder: Path, read: Reads | None = None) -> dict[str, str]:
        """Path → SHA-256 of the bytes of each file that can be opened, or what `read` says of it."""
        corpus, read = self.opened(folder), read or _digest
        return {path: read(corpus, path, stamp) for path, stamp in self._stamps(folder).items()}


def _entries(corpus: Corpus) -> Iterator[tuple[Any, ...]]:
    for chunk in corpus.list():
        columns = (chunk.path, chunk.num_bytes, chunk.mtime_ns, chunk.ctime_ns, chunk.code, chunk.reason)
        yield from zip(*columns, strict=True)


def _entry(
    num_bytes: int | None, mtime_ns: int | None, ctime_ns: int | None, code: str | None, reason: str | None
) -> tuple[FileStamp | None, str | None, str | None]:
    if num_bytes is None or mtime_ns is None or ctime_ns is None:
        return None, code, reason
    return FileStamp(num_bytes, mtime_ns, ctime_ns), code, reason


def _digest(corpus: Corpus, path: str, stamp: FileStamp) -> str:
    with corpus.open(path, stamp) as file:
        return sha256_of(file)


def _given_digest(corpus: Corpus, path: str, stamp: FileStamp) -> str:
    with corpus.open_digested(path, stamp) as opened:
        return opened.digest
