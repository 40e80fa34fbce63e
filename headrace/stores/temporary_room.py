"""The error of a temporary folder that is full or cannot be written."""

import contextlib
import tempfile
from collections.abc import Iterator

from headrace.errors import StorageError


@contextlib.contextmanager
def temporary_room(what: str) -> Iterator[None]:
    """A block that writes to the temporary folder.

    Args:
        what: what is written, for the message: `a table`.

    Raises:
        StorageError: it cannot be written; the message names the folder and the way out. A `StorageError` of the block
            stays as it is.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"temporary folder {tempfile.gettempdir()}: {what} cannot be written ({error.strerror or error}); make "
            "room, or let TMPDIR name a folder on a larger disk"
        ) from error
