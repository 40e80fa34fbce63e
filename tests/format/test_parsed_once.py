"""Immutable files are parsed once per process, and never when that could hide a change."""

import os

import pytest

from headrace.errors import FormatError, NotFoundError
from headrace.format.parsed_once import ParsedFiles
from headrace.stores.storage import LocalStorage, open_storage

OLD = 1e9


def parse(blob, name):
    if blob == b"bad":
        raise FormatError(name)
    return [blob]


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def put(storage, name, content, seconds=OLD):
    storage.write(name, content)
    if storage.local_path(name) is not None:
        os.utime(storage.local_path(name), (seconds, seconds))
    return storage.stat(name)


def files(most_bytes=10_000, now=OLD + 100):
    return ParsedFiles(most_bytes, lambda: now)


def test_a_file_is_parsed_once(storage):
    kept, entry = files(), put(storage, "a.json", b"one")
    first = kept.read(storage, entry, parse)
    storage.delete("a.json")
    assert kept.read(storage, entry, parse) is first


def test_a_file_of_another_size_or_time_is_read_again(storage):
    kept = files()
    assert kept.read(storage, put(storage, "a.json", b"one"), parse) == [b"one"]
    assert kept.read(storage, put(storage, "a.json", b"two", OLD + 1), parse) == [b"two"]
    assert kept.read(storage, put(storage, "a.json", b"three"), parse) == [b"three"]


def test_a_file_of_the_last_seconds_is_always_read(storage):
    kept = files(now=OLD + 1)
    assert kept.read(storage, put(storage, "a.json", b"one"), parse) == [b"one"]
    assert kept.read(storage, put(storage, "a.json", b"two"), parse) == [b"two"]


def test_files_of_two_memory_stores_are_not_confused():
    kept = files(now=4e9)
    for content in (b"one", b"two"):
        storage = open_storage("memory://")
        assert kept.read(storage, put(storage, "a.json", content), parse) == [content]


def test_two_ways_to_parse_a_file_are_not_confused(storage):
    kept, entry = files(), put(storage, "a.json", b"one")
    assert kept.read(storage, entry, parse) == [b"one"]
    assert kept.read(storage, entry, len_of) == 3


def len_of(blob, name):
    return len(blob)


def test_what_was_used_last_is_kept_within_the_limit(storage):
    kept = files(most_bytes=3_000)
    entries = [put(storage, f"{number}.json", b"x") for number in range(4)]  # each costs 1,024 bytes at least
    for entry in (*entries[:2], entries[0], entries[2]):
        kept.read(storage, entry, parse)
    for entry in entries:
        storage.delete(entry.path)
    assert kept.read(storage, entries[0], parse) == [b"x"]
    with pytest.raises(NotFoundError):
        kept.read(storage, entries[1], parse)


def test_a_file_larger_than_the_limit_is_read_each_time(storage):
    kept, entry = files(most_bytes=2_000), put(storage, "a.json", bytes(3_000))
    kept.read(storage, entry, parse)
    storage.delete("a.json")
    with pytest.raises(NotFoundError):
        kept.read(storage, entry, parse)


def test_an_error_is_not_kept(storage):
    kept, entry = files(), put(storage, "a.json", b"bad")
    for _ in range(2):
        with pytest.raises(FormatError, match=r"a\.json"):
            kept.read(storage, entry, parse)
