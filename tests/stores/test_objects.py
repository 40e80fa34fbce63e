"""Tests of `headrace.stores.objects`."""

from headrace.stores import objects
from tests.support.bucket_source import source_with


def test_a_listing_is_given_in_the_pages_of_the_store_with_sizes_and_times(monkeypatch):
    monkeypatch.setattr(objects, "_PAGE", 2)
    source = source_with("a", "b/.hidden", "bb", "ccc", "out/x", "out/y", exclude=("out",))
    chunks = list(source.list())
    assert [chunk.path for chunk in chunks] == [["a"], ["bb", "ccc"], []]
    assert [chunk.num_bytes for chunk in chunks] == [[1], [2, 3], []]
    assert all(mtime_ns > 0 for chunk in chunks for mtime_ns in chunk.mtime_ns)
