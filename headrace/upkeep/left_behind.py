"""Finds and removes the parts of an output that its YAML does not name any more: sets of columns, latents, and views.

A build leaves them as they are, because a training job may read them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from headrace.assemble.stages import AUDIO, stages_of
from headrace.config.dataset import DatasetConfig
from headrace.format.beside.views import VIEWS
from headrace.locate.outputs import COLUMNS, LATENTS
from headrace.stores.storage import Storage, StoredObject

_TABLES = "catalog/columns/"  # the imported table of each set of columns
_OWN = ("snapshots", "manifests")  # what the folder of a part has


@dataclass(frozen=True, slots=True)
class LeftPart:
    """A part that is not in the YAML.

    Attributes:
        name: such as `latents/crepe` or `views/loud`.
        files: its files, and those of its imported table, by paths below the output, in the order of removal.
    """

    name: str
    files: tuple[StoredObject, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the files."""
        return sum(entry.num_bytes for entry in self.files)

    @property
    def newest_seconds(self) -> float:
        """Time of the newest file."""
        return max(entry.modified_seconds for entry in self.files)


def parts_of_yaml(config: DatasetConfig) -> frozenset[str]:
    """The parts that a YAML names, besides the audio."""
    views = (f"{VIEWS}/{name}" for name in config.views)
    return frozenset([*views, *(stage.folder for stage in stages_of(config) if stage != AUDIO)])


def left_behind(output: Storage, wanted: Collection[str]) -> list[LeftPart]:
    """The parts of an output that are not wanted, by name. Folders that Headrace did not make are left out.

    Args:
        output: the output of a data set.
        wanted: the names of `parts_of_yaml`.
    """
    found: dict[str, list[StoredObject]] = {}
    for family in (LATENTS, COLUMNS, VIEWS):
        for entry in (entry for entry in output.list(f"{family}/") if entry.path.count("/") > 1):
            found.setdefault("/".join(entry.path.split("/")[:2]), []).append(entry)
    return [
        LeftPart(name, tuple(sorted([*files, *_table_of(output, name)], key=_rank)))
        for name, files in sorted(found.items())
        if name not in wanted and any(entry.path.split("/")[2] in _OWN for entry in files)
    ]


def divided_by_age(parts: Sequence[LeftPart], oldest_young: float) -> tuple[list[LeftPart], list[LeftPart]]:
    """The parts whose files are all old, and the others, of which none may be removed: a build may be making them.

    Args:
        parts: the parts.
        oldest_young: files that changed before this Unix time are old.
    """
    old = [part for part in parts if part.newest_seconds < oldest_young]
    return old, [part for part in parts if part not in old]


def remove_parts(
    output: Storage,
    parts: Sequence[LeftPart],
    progress: Callable[[StoredObject], None] = lambda entry: None,  # noqa: ARG005
) -> None:
    """Remove parts: their snapshots first, so that no reader begins with a part that is half there."""
    for entry in (entry for part in parts for entry in part.files):
        output.delete(entry.path)
        progress(entry)


def left_behind_text(sizes: Mapping[str, int], output: str, config: str) -> str:
    """The sentence about parts that are left behind.

    Args:
        sizes: name → bytes of each part.
        output: the output, as a user names it.
        config: the YAML file, as a user names it.
    """
    named = ", ".join(f"{name} ({num_bytes:,} bytes)" for name, num_bytes in sizes.items())
    return f"{named}: no longer in the YAML; `headrace gc {output} --left-behind --config {config}` removes them"


def _table_of(output: Storage, name: str) -> list[StoredObject]:
    """The files of the imported table of a set of columns; none for other parts."""
    family, _, own = name.partition("/")
    return list(output.list(f"{_TABLES}{own}/")) if family == COLUMNS else []


def _rank(entry: StoredObject) -> tuple[bool, str]:
    return entry.path.split("/")[2] != "snapshots", entry.path
