"""What lies in an output: its shard folders, found from whatever part of it a person names.

Owns that search alone; what a shard folder holds is `snapshots`' and `manifests`' business.
"""

from dataclasses import dataclass

from headrace.errors import NotFoundError
from headrace.snapshots import NumberedSnapshot, read_snapshot, snapshot_numbers
from headrace.storage import Storage

AUDIO = "audio"
LATENTS = "latents"


@dataclass(frozen=True, slots=True)
class Part:
    """One shard folder of an output.

    Attributes:
        name: `audio` or `latents/<name>`; of a shard folder that was named itself, `.`.
        storage: the folder.
        numbers: its snapshots, ascending; at least one.
    """

    name: str
    storage: Storage
    numbers: tuple[int, ...]

    def snapshot(self, number: int | None = None) -> NumberedSnapshot:
        """One of its snapshots, the newest by default. Raises `NotFoundError`."""
        return read_snapshot(self.storage, number)


def find_parts(storage: Storage) -> list[Part]:
    """The shard folders with snapshots below (or at) a folder: audio first, then latents by name; none in others'."""
    if numbers := snapshot_numbers(storage):
        return [Part(".", storage, tuple(numbers))]
    names = [AUDIO, *_latents(storage)]
    found = [(name, storage.at(name)) for name in names]
    return [Part(name, folder, tuple(numbers)) for name, folder in found if (numbers := snapshot_numbers(folder))]


def need_parts(storage: Storage) -> list[Part]:
    """As `find_parts`.

    Raises:
        NotFoundError: there is none.
    """
    parts = find_parts(storage)
    if not parts:
        raise NotFoundError(
            f"{storage.uri}: no Headrace snapshot there; name a data set's output, or its audio/ or latents/<name>/"
        )
    return parts


def _latents(storage: Storage) -> list[str]:
    return sorted({"/".join(entry.path.split("/")[:2]) for entry in storage.list(f"{LATENTS}/")})
