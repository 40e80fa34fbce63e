"""The kinds of shards that the YAML of a data set asks for, in the order in which they are made."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.locate import outputs


class StageKind(StrEnum):
    """Contents of the shards of a stage."""

    AUDIO = outputs.AUDIO
    COLUMNS = outputs.COLUMNS
    LATENTS = outputs.LATENTS


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of shards: the audio, one set of columns, or one set of latents.

    Attributes:
        kind: what they hold.
        name: the set; empty for the audio.
    """

    kind: StageKind
    name: str = ""

    @property
    def part(self) -> str:
        """The stage in messages and figures: `audio`, `columns captions`, `latents crepe`."""
        return f"{self.kind} {self.name}".rstrip()

    @property
    def folder(self) -> str:
        """The folder below the output: `audio`, `columns/captions`, `latents/crepe`."""
        return self.part.replace(" ", "/")


AUDIO = Stage(StageKind.AUDIO)


def stages_of(config: DatasetConfig, *kinds: StageKind) -> list[Stage]:
    """The stages of a data set, upstream first; with `kinds`, only these."""
    return [stage for stage in _stages(config) if not kinds or stage.kind in kinds]


def _stages(config: DatasetConfig) -> Iterator[Stage]:
    yield AUDIO
    for name in config.column_sets:
        yield Stage(StageKind.COLUMNS, name)
    for latents in config.latents:
        yield Stage(StageKind.LATENTS, latents.name)


def latents_by_part(config: DatasetConfig) -> dict[str, LatentsConfig]:
    """The settings of each set of latents, by `Stage.part`."""
    return {Stage(StageKind.LATENTS, latents.name).part: latents for latents in config.latents}
