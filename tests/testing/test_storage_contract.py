"""`StorageContract` has a test that fails for a store that breaks a sentence of the protocol."""

import threading
import time

import pytest

from headrace.errors import NotFoundError
from headrace.stores.storage import LocalStorage, StoredObject
from headrace.testing import StorageContract
from tests.support.contracts import failures, new_folders


class Wrapped:
    """A correct store, of which subclasses break one method."""

    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        if name == "store" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.store, name)

    def at(self, folder):
        return type(self)(self.store.at(folder))


class StatOfMissing(Wrapped):
    def stat(self, path):
        return self.store.stat(path) if self.exists(path) else StoredObject(path, 0, 2e9)


class StatInMilliseconds(Wrapped):
    def stat(self, path):
        found = self.store.stat(path)
        return StoredObject(path, found.num_bytes, found.modified_seconds * 1000)

    def list(self, prefix=""):
        return (StoredObject(one.path, one.num_bytes, one.modified_seconds * 1000) for one in self.store.list(prefix))


class StatOutside(Wrapped):
    def stat(self, path):
        try:
            return self.store.stat(path)
        except ValueError:
            raise NotFoundError(path) from None


class VersionIsTheSize(Wrapped):
    def version(self, path):
        return str(self.size(path))


class VersionIsANumber(Wrapped):
    def version(self, path):
        return hash(self.store.version(path))


class ReadsBuffers(Wrapped):
    def read(self, path):
        return bytearray(self.store.read(path))


class RangesAreBuffers(Wrapped):
    def read_ranges(self, path, ranges):
        return [memoryview(one) for one in self.store.read_ranges(path, ranges)]


class RangesSorted(Wrapped):
    def read_ranges(self, path, ranges):
        return self.store.read_ranges(path, sorted(ranges))


class RangesCut(Wrapped):
    def read_ranges(self, path, ranges):
        blob = self.read(path)
        return [blob[start:stop] for start, stop in ranges]


class OneFile(Wrapped):
    def open(self, path):
        if (path, self.version(path)) not in (files := self.__dict__.setdefault("files", {})):
            files[path, self.version(path)] = self.store.open(path)
        return files[path, self.version(path)]


class ExistsAsFolder(Wrapped):
    def exists(self, path):
        return self.store.exists(path) or any(self.store.list(f"{path}/"))


class ListsShallow(Wrapped):
    def list(self, prefix=""):
        return (one for one in self.store.list(prefix) if "/" not in one.path.removeprefix(prefix))


class ListsFolders(Wrapped):
    def list(self, prefix=""):
        return self.store.list(f"{prefix}/" if prefix and not prefix.endswith("/") else prefix)


class ListsUnsorted(Wrapped):
    def list(self, prefix=""):
        return reversed(list(self.store.list(prefix)))


class ListsNames(Wrapped):
    def list(self, prefix=""):
        return (one.path for one in self.store.list(prefix))


class WritesWholeFiles(Wrapped):
    def write(self, path, data):
        if hasattr(data, "seek"):
            data.seek(0)
        self.store.write(path, data)


class WritesInPlace(Wrapped):
    def write(self, path, data):
        target = self.local_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            if isinstance(data, bytes | list):
                file.write(data if isinstance(data, bytes) else b"".join(data))
            while not isinstance(data, bytes | list) and (chunk := data.read(1 << 20)):
                file.write(chunk)


class WritesWhatAFailingFileGave(Wrapped):
    def write(self, path, data):
        if isinstance(data, bytes | list):
            return self.store.write(path, data)
        chunks = []
        try:
            while chunk := data.read(1 << 20):
                chunks.append(chunk)
        finally:
            self.store.write(path, chunks)


class DropsViews(Wrapped):
    def write(self, path, data):
        self.store.write(path, [one for one in data if isinstance(one, bytes)] if isinstance(data, list) else data)


class CreateReplaces(Wrapped):
    def create(self, path, data):
        self.store.write(path, data)


class CreateLooksFirst(Wrapped):
    def create(self, path, data):
        if self.exists(path):
            self.store.create(path, data)
        time.sleep(0.05)
        self.store.write(path, data)


class CreateInPieces(Wrapped):
    def create(self, path, data):
        self.store.create(path, data[: len(data) // 2])
        time.sleep(0.05)
        self.store.write(path, data)


class DeleteOfMissing(Wrapped):
    def delete(self, path):
        self.store.size(path)
        self.store.delete(path)


class DeletesFolders(Wrapped):
    def delete(self, path):
        for one in list(self.store.list(f"{path}/")):
            self.store.delete(one.path)
        self.store.delete(path)


class LocalPathOfRoot(Wrapped):
    def local_path(self, path):
        return self.store.local_path(path) and self.store.root.parent / path


class CopyIsEmpty(Wrapped):
    def __getstate__(self):
        return {"store": LocalStorage(self.store.root / "copy")}

    @property
    def uri(self):
        return str(self.store.root).replace("/copy", "")


class NoPickle(Wrapped):
    def __init__(self, store):
        super().__init__(store)
        self.lock = threading.Lock()


STORES = Wrapped.__subclasses__()


@pytest.mark.medium
@pytest.mark.parametrize("store", STORES, ids=lambda one: one.__name__)
def test_the_contract_of_stores_finds(store, tmp_path):
    folders = new_folders(tmp_path)
    assert failures(StorageContract(), lambda: {"storage": store(LocalStorage(next(folders)))})


@pytest.mark.medium
def test_the_contract_of_stores_holds_for_what_they_wrap(tmp_path):
    folders = new_folders(tmp_path)
    assert not failures(StorageContract(), lambda: {"storage": Wrapped(LocalStorage(next(folders)))})
