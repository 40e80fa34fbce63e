"""Columns that are computed from the audio of the samples: the sets of `features`."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from headrace import features
from headrace.config.content import FeatureConfig
from headrace.encoding.clips import AudioClip, AudioForm, read_clip
from headrace.encoding.sources import audio_shard
from headrace.errors import BuildError
from headrace.features import Feature
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec
from headrace.format.indexes.index import ShardIndex
from headrace.format.manifests.manifests import ManifestRejection
from headrace.machine import num_cores
from headrace.ordered import TaskThreads, map_in_order
from headrace.stores.storage import Storage

_KINDS = {"text": ColumnKind.STRING}


def feature_rows(feature: FeatureConfig) -> str:
    """Digest of everything that a feature's columns depend on, except the audio; in place of a digest of rows.

    Raises:
        ConfigError, MissingDependencyError: see `headrace.features.fingerprint`.
    """
    own = features.fingerprint(feature.kind, feature.settings)
    return hashlib.sha256(f"{own} {feature.audio_field or ''}".encode()).hexdigest()


@dataclass(slots=True)
class FeatureValues:
    """The values of a feature; a `ColumnValues`.

    Attributes:
        audio: the folder of audio shards.
        config: the settings of the feature.
    """

    audio: Storage
    config: FeatureConfig
    are_computed: ClassVar[bool] = True
    _loaded: Feature | None = field(default=None, init=False)

    @property
    def feature(self) -> Feature:
        """The feature, loaded at its first use."""
        if self._loaded is None:
            self._loaded = features.load(self.config.kind, self.config.settings)
        return self._loaded

    def columns(self, index: ShardIndex) -> tuple[Column, ...]:
        """See `ColumnValues`. The shard is read and decoded.

        Raises:
            BuildError: the feature fails; the message names the sample.
        """
        feature = self.feature
        num_threads = num_cores() if feature.is_concurrent else 1
        with (
            audio_shard(self.audio, index.shard, self.config.audio_field or "") as shard,
            TaskThreads(num_threads, "headrace-feature") as pool,
        ):
            measure = partial(_measured, self.config.name, feature)
            found = list(map_in_order(pool, measure, shard.clips, window=2 * num_threads))
        specs = [ColumnSpec(name, _KINDS.get(kind) or ColumnKind(kind)) for name, kind in feature.columns.items()]
        return tuple(Column.of(spec, [one[spec.name] for one in found]) for spec in specs)

    def left_over(self) -> tuple[ManifestRejection, ...]:
        """See `ColumnValues`: none, because there is a value for each sample."""
        return ()


def _measured(name: str, feature: Feature, clip: AudioClip) -> Mapping[str, Any]:
    rate = feature.sample_rate_hz or clip.sample_rate_hz
    form = AudioForm(rate, feature.num_channels or clip.num_channels)
    audio = read_clip(clip, form, 0, clip.num_frames_at(rate) if rate != clip.sample_rate_hz else clip.num_frames)
    try:
        return feature.measure(audio, rate)
    except Exception as error:  # of a model or the user's code: any
        raise BuildError(f"features ({name}): {clip.shard}: sample {clip.key!r}: {error}") from error
