"""A data set in a Dagster project: its configuration, and the prefix of its asset keys in that project."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import dagster as dg

from headrace.config.dataset import DatasetConfig
from headrace.config.section import checked_name
from headrace.errors import ConfigError
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.partitions import partitions_of


def prefix_parts(key_prefix: str | Sequence[str]) -> tuple[str, ...]:
    """The parts of a key prefix that is a list, or has slashes between them.

    Raises:
        ConfigError: it is neither.
    """
    parts: object = key_prefix.split("/") if isinstance(key_prefix, str) else key_prefix  # YAML may hold anything
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"key_prefix is {key_prefix!r}: expected a name, or a list of names such as ['audio', 'raw']")
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class ProjectDataset:
    """A data set and its place among the assets of a Dagster project.

    Attributes:
        config: the data set's YAML. Its name is the name of the asset group, and the first part of the names of
            sensors, schedules and jobs, so it is unique in a project.
        key_prefix: parts of an asset key in front of `catalog`, `audio_shards` and so on.
    """

    config: DatasetConfig
    key_prefix: tuple[str, ...]

    @classmethod
    def named(cls, config: DatasetConfig, key_prefix: str | Sequence[str] | None = None) -> Self:
        """A data set with this prefix, by default its name.

        Args:
            config: the data set.
            key_prefix: the parts, as a list or with slashes between them; None for the data set's name.

        Raises:
            ConfigError: there is no part, or one is not a letter followed by letters, digits and underscores.
        """
        if key_prefix is None:
            return cls(config, (config.name,))
        parts = prefix_parts(key_prefix)
        if not parts:
            raise ConfigError(f"{config.name}: key_prefix: expected at least one part, found none")
        try:
            return cls(config, tuple(checked_name(part) for part in parts))
        except ValueError as error:
            raise ConfigError(f"{config.name}: key_prefix {'/'.join(parts)!r}: each part: {error}") from error

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.config.name

    @property
    def keys(self) -> DatasetKeys:
        """The data set's asset keys."""
        return DatasetKeys(self.key_prefix)

    @property
    def partitions(self) -> dg.StaticPartitionsDefinition:
        """The partitions of recordings, audio shards, columns and latent shards."""
        return partitions_of(self.config)

    def assets(self) -> list[dg.AssetKey]:
        """The keys of all assets of the data set."""
        latents = self.config.latents
        fitted = (entry.name for entry in latents if entry.fits_centroids)
        return self.keys.all(self.config.column_sets, (entry.name for entry in latents), self.config.views, fitted)
