"""Downloads an object again if it arrived damaged, before that becomes an error.

Damaged means: its checksum or digest is not the expected one, or it cannot be parsed. It is downloaded two more times,
or as often as `download_retry` says, with the pauses of `retry_policy` and with headers that ask caches on the way for
a fresh copy. A local file is read once.

This is about content. A request that fails is repeated by `requests.StoreRequests`, or by obstore where a store was
opened without a `Transfer`.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from headrace.errors import FormatError, IntegrityError, SampleCountError
from headrace.stores.hub import HubStorage
from headrace.stores.objects import ObjectStorage
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import Storage
from headrace.stores.waiting import wait

T = TypeVar("T")

_log = logging.getLogger(__name__)
_REPEATS = 2

DAMAGED_IN_STORE = "the object is damaged in the store or on the way; `headrace verify` on the store says which"


def sources(storage: Storage, *, copies: bool = False) -> Iterator[Storage]:
    """The stores to fetch from, one per attempt: the store itself, then, after pauses, the store past all caches.

    There are two further attempts, or as many as `download_retry` says.

    Args:
        storage: the store; there is one attempt for a local folder.
        copies: whether objects are copied on this machine, where a copy may be damaged: then there are as many
            attempts for a local folder as for other stores.
    """
    yield storage
    retries, attempt = RetryPolicy(_repeats(storage)), 1
    if copies or not is_local(storage):
        while (pause := retries.pause(attempt, 0.0, draw=1.0)) is not None and wait(pause):
            yield _past_caches(storage)
            attempt += 1


def until_sound(fetch: Callable[[Storage], T], storage: Storage, what: str, *, copies: bool = False) -> T:
    """The result of `fetch`, which is called again if what it reads is damaged.

    Args:
        fetch: reads from the store that is passed to it.
        storage: the store to read.
        what: the object, for the log.
        copies: see `sources`.

    Raises:
        FormatError, IntegrityError: the error of the last attempt; the message says how many there were.
        SampleCountError: the object is sound, but has another number of samples than expected; not tried again.
    """
    attempts, fault = 0, ""
    for source in sources(storage, copies=copies):
        if attempts == 1:
            say(what, fault)
        attempts += 1
        try:
            return fetch(source)
        except SampleCountError:
            raise
        except (FormatError, IntegrityError) as error:
            last, fault = error, str(error)
    try:
        raise last if is_local(storage) else type(last)(f"{last} ({times(attempts)})") from last.__cause__
    finally:
        del last  # it holds this frame, which would hold it


def read_sound(storage: Storage, path: str, parse: Callable[[bytes, str], T], first: bytes | None = None) -> T:
    """The result of `parse` for an object's bytes and whole name; see `until_sound`. Raises `NotFoundError`.

    Args:
        storage: the store.
        path: the object's path.
        parse: raises `FormatError` or `IntegrityError` if the bytes are damaged.
        first: the bytes of the first attempt, if they have been read already.
    """
    name = f"{storage.uri}/{path}"
    blobs = iter(() if first is None else (first,))
    return until_sound(lambda source: parse(next(blobs, None) or source.read(path), name), storage, name)


def say(what: str, reason: str) -> None:
    """Log that an object arrived damaged and is downloaded again."""
    _log.warning("%s arrived damaged, and is downloaded again: %s", what, reason)


def times(attempts: int) -> str:
    """The number of downloads, for messages."""
    return f"downloaded {attempts} times, past all caches" if attempts > 1 else "downloaded once"


def _past_caches(storage: Storage) -> Storage:
    """Add headers that make caches on the way ask the store for a fresh copy; a folder or memory stays as it is."""
    if isinstance(storage, ObjectStorage) and not storage.uri.startswith("memory:"):
        return ObjectStorage(storage.uri, storage.prefix, storage.transfer, is_past_caches=True, signed=storage.signed)
    return storage


def _repeats(storage: Storage) -> int:
    transfer = storage.transfer if isinstance(storage, ObjectStorage | HubStorage) else None
    num_retries = None if transfer is None else transfer.retries.num_retries
    return _REPEATS if num_retries is None else num_retries


def is_local(storage: Storage) -> bool:
    """Whether a store is a local folder, so that reading again gives the same bytes."""
    return storage.local_path("any") is not None
