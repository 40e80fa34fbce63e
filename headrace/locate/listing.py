"""Lists stores, and recognizes plain web servers, which serve files but list no folders.

Such a server is distinguished from a failure that may pass; the error says how to name shards without a listing.
"""

import contextlib
import re
from collections.abc import Iterator

from headrace.errors import ConfigError, StorageError
from headrace.format.snapshots.snapshots import snapshot_numbers
from headrace.stores.storage import ObjectStorage, Storage, Transfer, open_storage

_WEB = ("http://", "https://")
# 4xx except 408 and 429, which pass, or 501: asking again does not help, for the server does not know PROPFIND.
_REJECTED = re.compile(r"PROPFIND .*status code: ((?:4(?!08|29)\d\d|501)[^:]*)|(decoding PROPFIND response)", re.DOTALL)


class UnlistedError(ConfigError):
    """The web server does not list folders."""


def listed_snapshots(storage: Storage) -> list[int]:
    """Numbers of the snapshots that are there, ascending.

    Raises:
        UnlistedError: the web server does not list folders.
    """
    with listing(storage):
        return snapshot_numbers(_asked_once(storage))


def has_snapshots(storage: Storage) -> bool:
    """Whether a folder has snapshots; False for a web server that does not list folders."""
    try:
        return bool(listed_snapshots(storage))
    except UnlistedError:
        return False


@contextlib.contextmanager
def listing(storage: Storage) -> Iterator[None]:
    """A context in which `storage` is listed.

    Raises:
        UnlistedError: the web server does not list folders.
    """
    try:
        yield
    except StorageError as error:
        rejected = _REJECTED.search(str(error)) if is_web(storage) else None
        if rejected is None:
            raise
        reason = (rejected[1] or rejected[2]).strip()
        raise UnlistedError(
            f"{storage.uri}: this web server does not list its folders ({reason}): {way_out(storage)}"
        ) from error


def way_out(storage: Storage) -> str:
    """Advice for a folder that a web server does not list."""
    return f"name its shards, by a brace pattern like {storage.uri}/train-{{000..009}}.tar or by a sizes.json"


def is_web(storage: Storage) -> bool:
    """Whether a store is reached over plain HTTP."""
    return storage.uri.startswith(_WEB)


def _asked_once(storage: Storage) -> Storage:
    """Turn off the client's own retries: it would ask a server that answers 501 for minutes."""
    if is_web(storage) and isinstance(storage, ObjectStorage) and storage.transfer is None:
        return open_storage(storage.uri, Transfer())
    return storage
