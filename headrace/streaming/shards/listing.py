"""Asking a store what it holds, where not every store can tell: plain web servers give files and list none.

Owns telling "this server lists nothing" from a failure that may pass, and saying what to do then. Named files need no
listing.
"""

import contextlib
import re
from collections.abc import Iterator

from headrace.errors import ConfigError, StorageError
from headrace.snapshots import snapshot_numbers
from headrace.storage import ObjectStorage, Storage, Transfer, open_storage

_WEB = ("http://", "https://")
# A client's fault (but for 408 and 429, which pass) or 501: the server will not learn PROPFIND by being asked again.
_REFUSAL = re.compile(r"PROPFIND .*status code: ((?:4(?!08|29)\d\d|501)[^:]*)|(decoding PROPFIND response)", re.DOTALL)


class UnlistedError(ConfigError):
    """The server does not say what it holds."""


def listed_snapshots(storage: Storage) -> list[int]:
    """Numbers of the snapshots that are there, ascending.

    Raises:
        UnlistedError: the server does not say what it holds.
    """
    with listing(storage):
        return snapshot_numbers(_asked_once(storage))


@contextlib.contextmanager
def listing(storage: Storage) -> Iterator[None]:
    """A block that lists `storage`.

    Raises:
        UnlistedError: the server does not say what it holds.
    """
    try:
        yield
    except StorageError as error:
        refusal = _REFUSAL.search(str(error)) if is_web(storage) else None
        if refusal is None:
            raise
        reason = (refusal[1] or refusal[2]).strip()
        raise UnlistedError(
            f"{storage.uri}: this web server does not say what a folder holds ({reason}): {way_out(storage)}"
        ) from error


def way_out(storage: Storage) -> str:
    """What to do where a web server does not list a folder."""
    return f"name its shards, by a brace pattern like {storage.uri}/train-{{000..009}}.tar or by a sizes.json"


def is_web(storage: Storage) -> bool:
    """Whether it is reached over plain HTTP."""
    return storage.uri.startswith(_WEB)


def _asked_once(storage: Storage) -> Storage:
    """The same store; a server that answers 501 would be asked for minutes by a client that repeats by itself."""
    if is_web(storage) and isinstance(storage, ObjectStorage) and storage.transfer is None:
        return open_storage(storage.uri, Transfer())
    return storage
