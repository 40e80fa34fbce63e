"""Opens compressed tables (`.gz`, `.zst`): they are unpacked into a temporary file."""

import tempfile
import weakref
from pathlib import Path

from headrace.errors import ConfigError, IntegrityError
from headrace.format.tars.unpacking import unpacked_stream
from headrace.stores.temporary_room import temporary_room

_PIECE_BYTES = 16 << 20
_EXTENSIONS = (".gz", ".zst")


def is_compressed(file: Path) -> bool:
    """Whether the name of a file says that it is compressed."""
    return file.suffix.lower() in _EXTENSIONS


class UnpackedFile:
    """The content of a compressed file as a temporary file, which is deleted with this object.

    Attributes:
        path: the temporary file.
    """

    def __init__(self, file: Path, name: str) -> None:
        """Unpack a file.

        Args:
            file: a file whose name ends in `.gz` or `.zst`.
            name: name of the table in error messages.

        Raises:
            ConfigError: the content is damaged or cut.
            OSError: the file cannot be read.
            StorageError: the temporary folder is full.
        """
        with temporary_room("a table"):
            copy = tempfile.NamedTemporaryFile(prefix="headrace-")  # noqa: SIM115 - closed by the finalizer
        weakref.finalize(self, copy.close)
        self.path = Path(copy.name)
        try:
            with file.open("rb") as packed:
                stream = unpacked_stream(packed, file.suffix.lower())
                while piece := stream.read(_PIECE_BYTES):
                    with temporary_room("a table"):
                        copy.write(piece)
        except IntegrityError as error:
            raise ConfigError(f"{name}: cannot be unpacked: {error}") from error
        with temporary_room("a table"):
            copy.flush()
