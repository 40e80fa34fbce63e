"""The family of errors that Headrace raises on purpose.

Owns the exception classes and nothing else: it imports nothing from the project. Every class is also the matching
built-in, so callers may catch either. A message names the object (path, shard, key), what was expected, what was found
and what to do next.
"""


class HeadraceError(Exception):
    """Root of every error that Headrace raises on purpose."""


class ConfigError(HeadraceError, ValueError):
    """A setting is missing, misspelt or contradicts another one."""


class StorageError(HeadraceError, OSError):
    """A store could not be read or written."""


class NotFoundError(StorageError, FileNotFoundError):
    """The named object is not in the store."""


class AlreadyExistsError(StorageError, FileExistsError):
    """Create-if-absent found the name taken: another writer was first."""


class UnsafePathError(HeadraceError, ValueError):
    """A name that would leave the root it belongs to."""


class AudioError(HeadraceError, ValueError):
    """A recording that cannot be used, with the reason that the rejects table shows.

    Attributes:
        reason: one of the machine-readable reasons of `headrace.audio` (``"truncated"``, ``"undecodable"``, ...).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["AudioError"], tuple[str, str]]:
        """Survive pickling between processes, which calls the class with `args` alone otherwise."""
        return type(self), (self.reason, str(self))


class CatalogError(HeadraceError, ValueError):
    """The catalog or its metadata table breaks a promise that later steps rely on."""


class FormatError(HeadraceError, ValueError):
    """Bytes on disk are not in the format that they claim (tar, index, manifest, snapshot)."""


class IntegrityError(HeadraceError, OSError):
    """Stored bytes do not have the size or digest that their index or name promises."""


class SampleCountError(IntegrityError):
    """A shard is whole, but holds more or fewer samples than a list of shards says; reading it again cannot help."""


class StateError(HeadraceError, ValueError):
    """A saved training state does not fit the data set or settings that it is loaded into."""


class SampleError(HeadraceError, RuntimeError):
    """A sample could not be read or decoded; the message names shard, key and reason."""


class BuildError(HeadraceError, RuntimeError):
    """A build could not finish or would publish something that is not true."""


class MissingDependencyError(HeadraceError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""
