"""`CorpusContract` has a test that fails for a corpus that breaks a sentence of the protocol."""

import dataclasses
import hashlib
import io
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.sources.content_digests import DigestedFile
from headrace.sources.listing import FileStamp, Listing
from tests.sources import test_corpora
from tests.support.contracts import failures, new_folders


class Wrapped:
    """A correct corpus, of which subclasses break one method."""

    def __init__(self, corpus):
        self.corpus = corpus

    uri = property(lambda self: self.corpus.uri)

    def list(self):
        return self.corpus.list()

    def open(self, path, stamp):
        return self.corpus.open(path, stamp)

    def open_digested(self, path, stamp):
        return self.corpus.open_digested(path, stamp)

    def rows(self):
        return self.corpus.rows()


class NoUri(Wrapped):
    uri = property(lambda self: None)


class AbsolutePaths(Wrapped):
    def list(self):
        for chunk in self.corpus.list():
            chunk.path = ["/" + one for one in chunk.path]
            yield chunk

    def open(self, path, stamp):
        return self.corpus.open(path[1:], stamp)

    def open_digested(self, path, stamp):
        return self.corpus.open_digested(path[1:], stamp)

    def rows(self):
        found = self.corpus.rows()
        return dataclasses.replace(found, read=lambda: ({**row, "path": "/" + row["path"]} for row in found.read()))


class ListsOnce(Wrapped):
    def __init__(self, corpus):
        self.corpus, self.listed = corpus, None

    def list(self):
        if self.listed is None:
            self.listed = iter(list(self.corpus.list()))
        return self.listed


class RejectsInSilence(Wrapped):
    def list(self):
        for chunk in self.corpus.list():
            found = Listing()
            for row in zip(
                chunk.path, chunk.num_bytes, chunk.mtime_ns, chunk.ctime_ns, chunk.code, chunk.reason, strict=True
            ):
                if row[4] is None:
                    found.add(row[0], FileStamp(*row[1:4]))
            yield found


class RejectsWithoutReason(Wrapped):
    def list(self):
        for chunk in self.corpus.list():
            chunk.reason = [None] * len(chunk)
            yield chunk


class RejectsWithStamp(Wrapped):
    """Entries that cannot be opened have none."""

    def list(self):
        for chunk in self.corpus.list():
            for row, code in enumerate(chunk.code):
                if code:
                    chunk.num_bytes[row] = chunk.mtime_ns[row] = chunk.ctime_ns[row] = 5
            yield chunk


class IgnoresStamps(Wrapped):
    def open(self, path, stamp):
        return Path(self.corpus.content.place(path, stamp).file).open("rb")


class DigestIgnoresStamps(Wrapped):
    @contextmanager
    def open_digested(self, path, stamp):
        blob = Path(self.corpus.content.place(path, stamp).file).read_bytes()
        yield DigestedFile(io.BytesIO(blob), hashlib.sha256(blob).hexdigest())


class DigestOfThePath(Wrapped):
    @contextmanager
    def open_digested(self, path, stamp):
        with self.corpus.open_digested(path, stamp) as found:
            yield DigestedFile(found.file, f"etag-{path}")


class DigestIsNone(Wrapped):
    @contextmanager
    def open_digested(self, path, stamp):
        with self.corpus.open_digested(path, stamp) as found:
            yield DigestedFile(found.file, "")


class DigestAtTheEnd(Wrapped):
    @contextmanager
    def open_digested(self, path, stamp):
        with self.corpus.open_digested(path, stamp) as found:
            found.file.seek(0, 2)
            yield found


class RowsOnce(Wrapped):
    def rows(self):
        found = self.corpus.rows()
        rows = found.read()
        return dataclasses.replace(found, read=lambda: rows)


class RowsWithoutPath(Wrapped):
    def rows(self):
        found = self.corpus.rows()
        return dataclasses.replace(found, read=lambda: ({"text": row["text"]} for row in found.read()))


class RowsOfBytes(Wrapped):
    def rows(self):
        found = self.corpus.rows()
        return dataclasses.replace(found, read=lambda: ({**row, "text": b"x"} for row in found.read()))


class RowsOfNaN(Wrapped):
    def rows(self):
        found = self.corpus.rows()
        return dataclasses.replace(found, read=lambda: ({**row, "x": float("nan")} for row in found.read()))


class RowsOfNumberNames(Wrapped):
    def rows(self):
        found = self.corpus.rows()
        return dataclasses.replace(found, read=lambda: ({**row, 3: "x"} for row in found.read()))


class SmallerSize(Wrapped):
    def list(self):
        for chunk in self.corpus.list():
            chunk.num_bytes = [one and one - 1 for one in chunk.num_bytes]
            yield chunk

    def open(self, path, stamp):
        return self.corpus.open(path, dataclasses.replace(stamp, num_bytes=stamp.num_bytes + 1))

    def open_digested(self, path, stamp):
        return self.corpus.open_digested(path, dataclasses.replace(stamp, num_bytes=stamp.num_bytes + 1))


def failures_of(corpus, folder):
    class Mine(test_corpora.TestRowsWithoutListing):
        def opened(self, folder):
            return corpus(super().opened(folder))

    folders = new_folders(folder)
    return failures(Mine(), lambda: {"tmp_path": next(folders)})


@pytest.mark.parametrize("corpus", Wrapped.__subclasses__(), ids=lambda one: one.__name__)
def test_the_contract_of_corpora_finds(corpus, tmp_path):
    assert failures_of(corpus, tmp_path)


def test_the_contract_of_corpora_holds(tmp_path):
    assert not failures_of(Wrapped, tmp_path)
