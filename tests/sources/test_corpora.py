"""The contract of corpora, for folders, buckets, and two kinds that other packages might register."""

import json
from pathlib import Path

import pytest

from headrace.sources.items import ItemCorpus
from headrace.sources.sources import open_source
from headrace.stores.storage import open_storage
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.s3 import new_bucket
from tests.support.toy_corpora import PackItems, RowItems, RowOptions


class TestFolder(CorpusContract):
    def write(self, folder):
        for name in ("a.wav", "b/c.wav"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(name.encode() * 50)

    def opened(self, folder):
        return open_source(folder)

    def change(self, folder):
        (folder / "a.wav").write_bytes(b"other")
        return Change("a.wav")

    def harm(self, folder):
        (folder / "gone.wav").symlink_to("nowhere.wav")
        (folder / "out.wav").symlink_to("/etc/hostname")
        return {"gone.wav": "unreadable", "out.wav": "outside_root"}


class TestBucket(CorpusContract):
    @pytest.fixture(autouse=True)
    def _bucket(self, s3_server, monkeypatch):
        self.url = new_bucket(s3_server, monkeypatch)

    def write(self, folder):
        for name in ("a.wav", "b/c.wav"):
            open_storage(self.url).write(name, name.encode() * 50)

    def opened(self, folder):
        return open_source(self.url)

    def change(self, folder):
        open_storage(self.url).write("a.wav", b"other")
        return Change("a.wav")

    def harm(self, folder):
        return {}


class TestByteRanges(CorpusContract):
    def write(self, folder):
        self._pack(folder, "one", {"a": b"first" * 40, "b": b"second" * 30})
        self._pack(folder, "two", {"c": b"third" * 20})

    def opened(self, folder):
        return ItemCorpus(str(folder), PackItems(str(folder)))

    def change(self, folder):
        self._pack(folder, "one", {"a": b"firsT" * 40, "b": b"second" * 30})
        return Change("one.pack/a", frozenset({"one.pack/b"}))

    def harm(self, folder):
        return {}

    def _pack(self, folder, name, contents):
        edges, start = [], 0
        for key, content in contents.items():
            edges.append(f"{key} {start} {len(content)}")
            start += len(content)
        (folder / f"{name}.pack").write_bytes(b"".join(contents.values()))
        (folder / f"{name}.index").write_text("\n".join(edges))


class TestRowsWithoutListing(CorpusContract):
    def write(self, folder):
        for name in ("x.wav", "deep/y.wav"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(name.encode() * 9)
        self._name(folder, "x.wav", "deep/y.wav", "./x.wav")

    def opened(self, folder):
        return ItemCorpus(str(folder), RowItems(str(folder), RowOptions()))

    def change(self, folder):
        (folder / "x.wav").write_bytes(b"other")
        return Change("x.wav")

    def harm(self, folder):
        (folder / "folder.wav").mkdir()
        self._name(folder, "x.wav", "deep/y.wav", "gone.wav", "folder.wav")
        return {"gone.wav": "unreadable", "folder.wav": "unreadable"}

    def _name(self, folder, *paths):
        rows = [{"path": path, "text": f"row {number}"} for number, path in enumerate(paths)]
        Path(folder, "rows.json").write_text(json.dumps(rows))
