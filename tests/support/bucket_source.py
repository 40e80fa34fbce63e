"""Shared by test_bucket_source and the tests beside it."""

from headrace.sources.bucket_source import BucketSource
from headrace.sources.listing import FileStamp
from headrace.stores.storage import open_storage


def source_with(*names, exclude=()):
    storage = open_storage("memory://")
    for name in names:
        storage.write(name, name.encode())
    return BucketSource(storage, exclude)


def stamp_in(source, path):
    """The stamp of an object in the listing."""
    return {
        name: FileStamp(num_bytes, mtime_ns)
        for chunk in source.list()
        for name, num_bytes, mtime_ns in zip(chunk.path, chunk.num_bytes, chunk.mtime_ns, strict=True)
    }[path]
