"""An object of a bucket is read in pieces of one version."""

import pytest

from headrace.errors import FileChangedError
from headrace.sources import bucket_source, object_file
from headrace.stores.storage import ObjectStorage
from tests.support.bucket_source import source_with, stamp_in


def test_an_object_that_is_replaced_while_it_is_read_in_pieces_is_an_error(monkeypatch):
    monkeypatch.setattr(bucket_source, "_WHOLE_BYTES", 3)
    monkeypatch.setattr(bucket_source, "_PIECE_BYTES", 4)
    source = source_with("recording")
    with source.open("recording", stamp_in(source, "recording")) as file:
        source.storage.write("recording", b"RECORDING")
        with pytest.raises(FileChangedError, match=r"recording in .* changed while it was read"):
            file.read()


def test_pieces_become_larger_for_a_reader_that_goes_straight_on(monkeypatch):
    monkeypatch.setattr(bucket_source, "_WHOLE_BYTES", 3)
    monkeypatch.setattr(bucket_source, "_PIECE_BYTES", 4)
    monkeypatch.setattr(object_file, "_MOST_BYTES", 16)
    source, spans = source_with(), []
    source.storage.write("long", bytes(range(100)))
    fetch = ObjectStorage.fetch

    def counted(storage, path, accept, span=None, tag=None):
        spans.append(span)
        return fetch(storage, path, accept, span, tag)

    monkeypatch.setattr(ObjectStorage, "fetch", counted)
    with source.open("long", stamp_in(source, "long")) as file:
        assert file.read() == bytes(range(100))
        file.seek(50)
        assert file.read(2) == bytes([50, 51])
    straight = [(0, 4), (4, 12), (12, 28), (28, 44), (44, 60), (60, 76), (76, 92), (92, 100)]
    assert spans == [*straight, (50, 54)]
