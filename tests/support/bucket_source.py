"""Shared by test_bucket_source and the tests beside it."""

from headrace.sources.bucket_source import BucketSource
from headrace.stores.storage import open_storage


def source_with(*names, exclude=()):
    storage = open_storage("memory://")
    for name in names:
        storage.write(name, name.encode())
    return BucketSource(storage, exclude)
