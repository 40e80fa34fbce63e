import hashlib
import io
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from headrace.errors import BuildError, FormatError, StorageError
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.indexes.index_files import parse_index
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.tars.tar import payload
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.index import HIDDEN, placed


class Recorder:
    """A store that records the order of writes."""

    def __init__(self):
        self.storage, self.written = open_storage("memory://"), []

    def __getattr__(self, name):
        return getattr(self.storage, name)

    def write(self, path, data):
        self.written.append(path)
        self.storage.write(path, data)


def fill(writer, count=3):
    for number in range(count):
        blob, text = bytes([number]) * (100 + number), b"{}"
        payloads = {"flac": (io.BytesIO(blob) if number % 2 else blob, len(blob)), "json": (text, 2)}
        writer.add(f"k{number}", payloads, SampleEntry("", {}, 10 + number, 8000, 1))


def test_the_name_ends_with_the_digest_and_the_tar_is_written_before_its_index():
    storage = Recorder()
    with ShardWriter(storage, ShardPlace("train", 3, 12)) as writer:
        fill(writer)
        index = writer.publish("input", {"note": "x"})
    digest = hashlib.sha256(storage.read(index.shard)).hexdigest()
    assert index.shard == f"train_0003_000012-{digest[:12]}.tar"
    assert index.sha256 == digest
    assert storage.written == [index.shard, index_name(index.shard)]
    assert parse_index(storage.read(index_name(index.shard)), "x").to_bytes() == index.to_bytes()
    assert index.num_bytes == storage.size(index.shard)


def test_the_index_has_the_ranges_of_all_fields():
    storage = open_storage("memory://")
    with ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
        fill(writer)
        index = writer.publish("", {})
    with storage.open(index.shard) as file:
        for row in range(3):
            assert payload(file, index.range_of(row, "flac")) == bytes([row]) * (100 + row)
            assert payload(file, index.range_of(row, "json")) == b"{}"
    assert index.num_frames.tolist() == [10, 11, 12]


def test_the_range_of_a_tensor_is_shifted_from_its_payload_to_the_tar():
    storage = open_storage("memory://")
    with ShardWriter(storage, ShardPlace("train", 0, 0, "latent_")) as writer:
        for number in range(2):
            blob = b"head" + bytes([number]) * 16 + b"tail"
            facts = SampleEntry("", {}, 2, 0, 0, tensors=placed(4, 20, 2, 4))
            writer.add(f"k{number}", {"pth": (blob, len(blob)), "json": (b"{}", 2)}, facts)
        index = writer.publish("", {}, outputs=HIDDEN)
    assert index.shard.startswith("latent_train_0000_000000-")
    with storage.open(index.shard) as file:
        for number, (start, stop, num_frames, width) in enumerate(index.tensors[:, 0].tolist()):
            assert payload(file, (start, stop)) == bytes([number]) * 16
            assert (num_frames, width) == (2, 4)


def test_an_unpublished_shard_leaves_no_files(tmp_path):
    storage = LocalStorage(tmp_path)
    with ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
        fill(writer)
        with pytest.raises(FormatError):
            writer.add("bad", {"flac": (b"abc", 5)})
    assert list(tmp_path.iterdir()) == []


def test_the_error_of_a_failing_store_names_the_object(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with ShardWriter(LocalStorage(tmp_path / "file"), ShardPlace("train", 0, 0)) as writer:
        fill(writer)
        with pytest.raises(StorageError, match="train_0000_000000"):
            writer.publish("", {})


def test_a_shard_above_the_memory_limit_is_written_through_a_file(monkeypatch, tmp_path):
    import headrace.format.tars.tar_buffer as module

    small, large = LocalStorage(tmp_path / "small"), LocalStorage(tmp_path / "large")
    names = []
    for storage, limit in ((small, 1 << 30), (large, 200)):
        monkeypatch.setattr(module, "_IN_MEMORY_BYTES", limit)
        with ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
            fill(writer, 20)
            names.append(writer.publish("", {}).shard)
    assert names[0] == names[1]
    assert small.read(names[0]) == large.read(names[1])


def damage(collected, place):
    """Change a byte where it was collected: in a piece, or in the temporary file."""
    content = collected.content()
    if not isinstance(content, list):
        content.seek(place % content.seek(0, io.SEEK_END))
        byte = content.read(1)[0]
        content.seek(-1, io.SEEK_CUR)
        content.write(bytes([byte ^ 0x41]))
        return
    blob = bytearray(b"".join(content))
    blob[place] ^= 0x41
    edges = [0, *accumulate(map(len, content))]
    content[:] = [bytes(blob[start:stop]) for start, stop in pairwise(edges)]


@pytest.mark.parametrize("place", [512 + 3, 3, -1536], ids=["payload", "header", "last payload"])
@pytest.mark.parametrize("limit", [1 << 30, 200], ids=["memory", "file"])
def test_a_tar_that_is_damaged_before_it_is_stored_is_not_stored(monkeypatch, place, limit):
    """The writer reads its own bytes again, so that nobody has to download them for a comparison."""
    monkeypatch.setattr("headrace.format.tars.tar_buffer._IN_MEMORY_BYTES", limit)
    storage = Recorder()
    with ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
        fill(writer)
        damage(writer._collected, place)
        with pytest.raises(BuildError, match=r"train_0000_000000-.*not written.*temporary folder"):
            writer.publish("", {})
    assert storage.written == []


def test_a_full_temporary_folder_is_an_error_that_names_it_and_the_way_out(monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    monkeypatch.setattr("headrace.format.tars.tar_buffer._IN_MEMORY_BYTES", 200)
    storage = Recorder()
    message = r"^temporary folder /\S+: a shard cannot be written \(No space left on device\); .* TMPDIR"
    with pytest.raises(StorageError, match=message), ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
        fill(writer, 20)
    assert storage.written == []


def test_publishing_asks_for_the_index_once_and_writes_two_objects():
    class Counting(Recorder):
        asked = ()

        def __getattr__(self, name):
            if name in {"read", "size", "stat", "exists", "open", "read_ranges", "list"}:
                self.asked = (*self.asked, name)
            return super().__getattr__(name)

    storage = Counting()
    with ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
        fill(writer)
        writer.publish("", {})
    assert storage.asked == ("list", "read")  # the records of a gc, and whether the shard is there
    assert len(storage.written) == 2
