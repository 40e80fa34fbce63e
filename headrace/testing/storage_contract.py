"""`StorageContract`: the tests that each store has to pass. Imports pytest."""

import contextlib
import io
import pickle
import threading
import time
from collections.abc import Callable

import pytest

from headrace.errors import AlreadyExistsError, NotFoundError, StorageError, UnsafePathError
from headrace.stores.storage import Storage, StoredObject
from headrace.testing.members import missing_members

_DAY_SECONDS = 86_400
_ESCAPING_PATHS = ["", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/.", "a/", "a\\..\\b", "a\0b"]


class StorageContract:
    """Tests of a store. Subclass it in a test module as `class TestMine(StorageContract)`.

    The subclass provides a pytest fixture `storage`, an empty store.
    """

    def test_is_a_storage(self, storage: Storage) -> None:
        """It has all methods of the protocol."""
        assert missing_members(storage, Storage) == []

    def test_what_is_written_is_read(self, storage: Storage) -> None:
        """Bytes, size and existence."""
        storage.write("a/b.bin", b"hello")
        assert storage.read("a/b.bin") == b"hello"
        assert isinstance(storage.read("a/b.bin"), bytes)
        assert storage.size("a/b.bin") == 5
        assert storage.exists("a/b.bin")

    def test_the_version_changes_with_what_is_written(self, storage: Storage) -> None:
        """A version names the content of an object."""
        storage.write("a.bin", b"hello")
        first = storage.version("a.bin")
        assert isinstance(first, str)
        assert storage.version("a.bin") == first
        storage.write("a.bin", b"world")
        assert storage.version("a.bin") != first
        with pytest.raises(NotFoundError, match=r"b\.bin"):
            storage.version("b.bin")

    def test_an_empty_object_exists(self, storage: Storage) -> None:
        """It is read, listed, and has no bytes."""
        storage.write("empty", b"")
        assert storage.read("empty") == b""
        assert storage.exists("empty")
        assert [entry.num_bytes for entry in storage.list()] == [0]

    def test_a_file_is_written_from_its_current_position(self, storage: Storage) -> None:
        """A file that is given to `write` need not be at its beginning."""
        file = io.BytesIO(b"skip" + bytes(range(256)) * 20_000)
        file.seek(4)
        storage.write("large", file)
        assert storage.read("large") == bytes(range(256)) * 20_000

    def test_pieces_are_joined(self, storage: Storage) -> None:
        """A list of pieces is one object."""
        pieces: list[bytes | memoryview] = [b"ab", b"", memoryview(bytes(100_000)), b"c"]
        storage.write("pieces", pieces)
        assert storage.read("pieces") == b"ab" + bytes(100_000) + b"c"
        storage.write("none", [])
        assert storage.read("none") == b""

    def test_writing_again_replaces(self, storage: Storage) -> None:
        """A shorter object leaves nothing of the longer one."""
        storage.write("a", b"long before")
        storage.write("a", b"after")
        assert storage.read("a") == b"after"

    def test_an_open_object_is_written_as_another(self, storage: Storage) -> None:
        """The file that `open` gives may be given to `write`, from its current position: an export copies shards so."""
        content = bytes(range(256)) * 20_000
        storage.write("original", content)
        with storage.open("original") as file:
            assert file.read(4) == content[:4]
            storage.write("copy", file)
        assert storage.read("copy") == content[4:]

    def test_a_file_that_fails_while_it_is_written_changes_nothing(self, storage: Storage) -> None:
        """The object before stays, and a new one does not appear."""
        storage.write("old", b"before")
        for path in ("old", "new"):
            with pytest.raises(OSError, match="this disk failed"):
                storage.write(path, _FailingFile(bytes(3 << 20)))
        assert storage.read("old") == b"before"
        assert [entry.path for entry in storage.list()] == ["old"]

    def test_create_fails_if_the_object_exists(self, storage: Storage) -> None:
        """The first content stays."""
        storage.create("n/1.json", b"first")
        with pytest.raises(AlreadyExistsError, match=r"n/1\.json"):
            storage.create("n/1.json", b"second")
        assert storage.read("n/1.json") == b"first"

    def test_one_of_many_creators_succeeds_and_its_bytes_stay(self, storage: Storage) -> None:
        """Commits rely on it."""
        start, winners = threading.Barrier(8), list[int]()

        def race(number: int) -> None:
            start.wait()
            try:
                storage.create("prize", b"%d" % number * 1000)
            except AlreadyExistsError:
                return
            winners.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        assert storage.read("prize") == b"%d" % winners[0] * 1000

    def test_ranges_are_returned_in_the_requested_order(self, storage: Storage) -> None:
        """They may overlap."""
        storage.write("alphabet", bytes(range(97, 123)))
        found = storage.read_ranges("alphabet", [(3, 5), (0, 2), (24, 26), (1, 4)])
        assert found == [b"de", b"ab", b"yz", b"bcd"]
        assert all(isinstance(one, bytes) for one in found)
        assert storage.read_ranges("alphabet", []) == []

    def test_an_empty_range_is_empty(self, storage: Storage) -> None:
        """No error, and no request is needed."""
        storage.write("alphabet", bytes(range(97, 123)))
        assert storage.read_ranges("alphabet", [(3, 3), (0, 1)]) == [b"", b"a"]

    @pytest.mark.parametrize("span", [(20, 30), (26, 27), (100, 200)])
    def test_a_range_beyond_the_end_is_an_error_that_names_the_object(
        self, storage: Storage, span: tuple[int, int]
    ) -> None:
        """Nothing shorter is returned."""
        storage.write("alphabet", bytes(range(97, 123)))
        with pytest.raises(StorageError, match="alphabet"):
            storage.read_ranges("alphabet", [(0, 1), span])

    def test_an_opened_object_seeks(self, storage: Storage) -> None:
        """Relative to its beginning, position and end."""
        storage.write("alphabet", bytes(range(97, 123)))
        with storage.open("alphabet") as file:
            assert file.read(3) == b"abc"
            assert file.seek(-2, io.SEEK_END) == 24
            assert file.read() == b"yz"
            file.seek(1)
            assert file.read(2) == b"bc"
            assert file.tell() == 3
            with storage.open("alphabet") as other:
                assert other.read(1) == b"a"
            assert file.read(1) == b"d"

    def test_errors_about_missing_objects_name_them(self, storage: Storage) -> None:
        """`NotFoundError`, whichever method is called."""
        for reading in _readings(storage):
            with pytest.raises(NotFoundError, match="gone/for good"):
                reading("gone/for good")
        assert not storage.exists("gone/for good")
        assert list(storage.list("gone/")) == []

    def test_deleting_twice_is_not_an_error(self, storage: Storage) -> None:
        """The second finds nothing to do."""
        storage.write("a", b"x")
        storage.delete("a")
        storage.delete("a")
        assert not storage.exists("a")

    def test_a_folder_is_no_object(self, storage: Storage) -> None:
        """It does not exist, cannot be read, and deleting it deletes nothing below it."""
        storage.write("a/b", b"x")
        assert not storage.exists("a")
        for reading in _readings(storage):
            with pytest.raises(StorageError, match="a"):
                reading("a")
        with contextlib.suppress(StorageError):
            storage.delete("a")
        assert storage.read("a/b") == b"x"

    def test_listing_is_sorted_recursive_and_by_string_prefix(self, storage: Storage) -> None:
        """By code points; a prefix need not end at a slash."""
        names = ["a.txt", "a/1", "a/b/2", "a0", "b/1", "train_0001_x.tar", "train_0010_x.tar"]
        for name in reversed(names):
            storage.write(name, name.encode())
        assert [entry.path for entry in storage.list()] == sorted(names)
        assert [entry.path for entry in storage.list("a")] == ["a.txt", "a/1", "a/b/2", "a0"]
        assert [entry.path for entry in storage.list("a/")] == ["a/1", "a/b/2"]
        assert [entry.path for entry in storage.list("a/b")] == ["a/b/2"]
        assert [entry.path for entry in storage.list("train_0001")] == ["train_0001_x.tar"]
        entry = next(storage.list("a/b/2"))
        assert isinstance(entry, StoredObject)
        assert entry.num_bytes == 5
        assert 1_500_000_000 < entry.modified_seconds < time.time() + _DAY_SECONDS
        assert storage.stat("a/b/2") == entry

    def test_a_folder_can_be_used_as_a_store(self, storage: Storage) -> None:
        """`at` gives a store below the store."""
        below = storage.at("audio").at("manifests")
        below.write("train/1.json", b"{}")
        assert storage.read("audio/manifests/train/1.json") == b"{}"
        assert [entry.path for entry in below.list()] == ["train/1.json"]
        assert [entry.path for entry in storage.at("audio").list("manifests/")] == ["manifests/train/1.json"]
        assert below.uri.endswith("audio/manifests")

    def test_a_local_path_is_that_of_the_object(self, storage: Storage) -> None:
        """Files are mapped and linked by it; only stores that are not local folders have none."""
        storage.write("a/b", b"hello")
        for path in (storage.local_path("a/b"), storage.at("a").local_path("b")):
            assert path is None or path.read_bytes() == b"hello"

    @pytest.mark.parametrize("path", _ESCAPING_PATHS)
    def test_names_that_leave_the_root_are_rejected(self, storage: Storage, path: str) -> None:
        """Before anything is read or written."""
        actions = (
            storage.read,
            storage.open,
            storage.size,
            storage.stat,
            storage.version,
            storage.exists,
            storage.delete,
            storage.at,
            storage.local_path,
            lambda name: storage.write(name, b""),
            lambda name: storage.create(name, b""),
            lambda name: storage.read_ranges(name, [(0, 1)]),
        )
        for action in actions:
            with pytest.raises(UnsafePathError):
                action(path)

    def test_unusual_but_legal_names_work(self, storage: Storage) -> None:
        """Spaces, percent signs, other alphabets."""
        for name in ["with space.txt", "ünïcode/日本.tar", "100%.json", "a..b", "-dash", "q?x=1&y#z", "tilde~"]:
            storage.write(name, name.encode())
            assert storage.read(name) == name.encode()
            assert name in {entry.path for entry in storage.list()}

    def test_readers_never_see_a_partial_object(self, storage: Storage) -> None:
        """A reader that polls while a writer replaces or creates the object sees all bytes of one version."""
        versions = [bytes([65 + number]) * 300_000 for number in range(4)]
        storage.write("object", versions[0])
        seen, has_read, stop = list[bytes](), threading.Event(), threading.Event()

        def poll() -> None:
            while not stop.is_set():
                with contextlib.suppress(NotFoundError):
                    seen.append(storage.read("object"))
                has_read.set()

        reader = threading.Thread(target=poll)
        reader.start()
        try:
            assert has_read.wait(60)
            for version in versions * 5:
                storage.write("object", version)
                storage.delete("object")
                storage.create("object", version)
        finally:
            stop.set()
            reader.join()
        assert set(seen) <= set(versions)

    def test_a_used_store_can_be_pickled_to_another_process(self, storage: Storage) -> None:
        """Workers get a copy, which reads the same objects; only objects in memory stay in their process."""
        storage.write("b/a", b"x")
        copy: Storage = pickle.loads(pickle.dumps(storage.at("b")))  # noqa: S301 - its own
        assert copy.uri == storage.at("b").uri
        assert copy.uri.startswith("memory:") or copy.read("a") == b"x"


class _FailingFile(io.BytesIO):
    """A file whose end cannot be read."""

    def read(self, size: int | None = -1) -> bytes:
        """Bytes, or the error."""
        if size is None or size < 0 or not (found := super().read(size)):
            raise OSError("this disk failed")
        return found


def _readings(storage: Storage) -> tuple[Callable[[str], object], ...]:
    """The methods that need an object."""
    whole = (storage.read, storage.size, storage.stat, storage.version, storage.open)
    return (*whole, lambda path: storage.read_ranges(path, [(0, 1)]))
