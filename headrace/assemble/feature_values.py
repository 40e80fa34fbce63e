"""Columns that are computed from the audio of the samples: the sets of `features`."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

from headrace.audio import Levels, levels
from headrace.config.content import FeatureConfig
from headrace.encoding.clips import AudioClip, AudioForm, read_clip
from headrace.encoding.sources import audio_shard
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec
from headrace.format.indexes.index import ShardIndex
from headrace.format.manifests.manifests import ManifestRejection
from headrace.stores.storage import Storage

_VERSIONS = {"levels": 1}
"""Kind of a feature → version of its code; with another one, its columns are computed again."""
_LEVELS = tuple(ColumnSpec(field.name, ColumnKind.FLOAT) for field in fields(Levels))


def feature_rows(feature: FeatureConfig) -> str:
    """Digest of everything that a feature's columns depend on, except the audio; in place of a digest of rows."""
    content = f"{feature.kind} {_VERSIONS[feature.kind]} {feature.audio_field or ''}"
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class FeatureValues:
    """The values of a feature; a `ColumnValues`.

    Attributes:
        audio: the folder of audio shards.
        feature: the feature.
    """

    audio: Storage
    feature: FeatureConfig

    def columns(self, index: ShardIndex) -> tuple[Column, ...]:
        """See `ColumnValues`. The shard is read and decoded."""
        with audio_shard(self.audio, index.shard, self.feature.audio_field or "") as shard:
            found = [_levels(clip) for clip in shard.clips]
        return tuple(Column.of(spec, _values(found, spec.name)) for spec in _LEVELS)

    def left_over(self) -> tuple[ManifestRejection, ...]:
        """See `ColumnValues`: none, because there is a value for each sample."""
        return ()


def _levels(clip: AudioClip) -> Levels:
    form = AudioForm(clip.sample_rate_hz, clip.num_channels)
    return levels(read_clip(clip, form, 0, clip.num_frames), clip.sample_rate_hz)


def _values(found: Sequence[Levels], name: str) -> list[float | None]:
    return [getattr(one, name) for one in found]
