"""The exceptions that Headrace raises, all derived from `HeadraceError`.

Every class is also derived from the matching built-in exception, so callers may catch either. A message names the
object (path, shard, key), what was expected, what was found, and what to do next.
"""


class HeadraceError(Exception):
    """Base class of all errors that Headrace raises."""


class ConfigError(HeadraceError, ValueError):
    """A setting or argument is missing, misspelt or invalid, or contradicts another one."""


class EmptyViewError(ConfigError):
    """A view chooses none of the samples that there are."""


class StorageError(HeadraceError, OSError):
    """Reading from or writing to a store failed."""


class StoreUnavailableError(StorageError):
    """A store did not respond, or responded with a temporary error; the same request may succeed later.

    Attributes:
        status: HTTP status of the response; None without a response.
        asked_seconds: the wait that the store asks for in that response, if it is known.
    """

    status: int | None = None
    asked_seconds: float | None = None


class NotFoundError(StorageError, FileNotFoundError):
    """The named object does not exist in the store."""


class NoShardsError(NotFoundError, ConfigError):
    """The place that a user named as a data set of shards does not exist, is empty, or contains something else."""


class NotAFileError(StorageError):
    """A local path is not a regular file but a folder, a named pipe, a socket, a device or a broken link."""


class FileChangedError(StorageError):
    """A file or object is not the one that was listed: its size or modification time is another one."""


class AlreadyExistsError(StorageError, FileExistsError):
    """An object that must be created already exists, because another writer was first."""


class UnsafePathError(HeadraceError, ValueError):
    """A path that would leave its root folder."""


class AudioError(HeadraceError, ValueError):
    """A recording is unusable.

    Attributes:
        reason: the code for the rejected table, from `headrace.audio` (``"truncated"``, ``"undecodable"``, …).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["AudioError"], tuple[str, str]]:
        """Make the error picklable: by default, unpickling would call the class with `args` only."""
        return type(self), (self.reason, str(self))


class CatalogError(HeadraceError, ValueError):
    """The catalog or its metadata table is missing or does not pass its checks."""


class FormatError(HeadraceError, ValueError):
    """A stored file (tar, index, manifest, snapshot, …) does not have the expected format."""


class IntegrityError(HeadraceError, OSError):
    """Stored bytes do not have the size or digest that their index or name states."""


class SampleCountError(IntegrityError):
    """A shard is undamaged, but has another number of samples than a list of shards states; a retry does not help."""


class StateError(HeadraceError, ValueError):
    """A saved training state does not fit the data set or the settings."""


class ForkedError(HeadraceError, RuntimeError):
    """An iteration is continued in a process that was forked from the one that began it."""


class SampleError(HeadraceError, RuntimeError):
    """A sample could not be read or decoded. The message names shard, key and reason."""


class BuildError(HeadraceError, RuntimeError):
    """A build could not finish, or its result would be incomplete or incorrect."""


class DeviceMemoryError(BuildError):
    """One window of a sample does not fit the memory of a device beside what else is there."""


class StaleError(BuildError):
    """Partitions are not built from the present input, so what is made from all of them cannot be made yet."""


class MissingDependencyError(HeadraceError, ImportError):
    """An optional package is not installed. The message names the extra that installs it."""


def shard_gone(name: str) -> NotFoundError:
    """The error of a run that reads a shard of a build which is not there any more."""
    return NotFoundError(f"{name}: the shard is gone; was it removed by gc while a run still reads it?")
