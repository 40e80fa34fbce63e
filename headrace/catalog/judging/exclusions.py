"""Finds the recordings and segments that the keys of the setting `exclude` name. Pure.

A recording's key names all of its segments. A segment's key names only that segment. A key may also name nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from headrace.audio import AudioFormat, plan_segments
from headrace.errors import ConfigError
from headrace.format.segment_keys import recording_key, segment_key

SEPARATOR = " "
"""Separates the keys in the catalog's column `excluded_segments`. No key contains it."""


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The recordings and segments that a set of keys names.

    Attributes:
        recordings: path of each recording that is excluded entirely → the key, or the segments' keys, that exclude it.
        segments: path of each recording that is excluded in part → keys of its excluded segments.
        unknown: keys that name no sample, in ascending order.
    """

    recordings: Mapping[str, str] = field(default_factory=dict)
    segments: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


def find_exclusions(
    keys: frozenset[str], recordings: pl.DataFrame, others: Iterable[str], audio: AudioFormat
) -> Exclusions:
    """Find the recordings and segments that the keys name.

    Args:
        keys: keys of recordings and of segments.
        recordings: usable recordings with `path`, `key`, `num_frames`, `sample_rate_hz`.
        others: keys of files that are damaged or not scanned yet. These keys, and keys of their segments, are not
            reported as unknown.
        audio: how recordings are cut into segments.
    """
    if not keys:
        return Exclusions()
    of_recordings = keys | {recording_key(key) for key in keys}
    elsewhere = of_recordings.intersection(others)
    named = {key for key in keys if key in elsewhere or recording_key(key) in elsewhere}
    whole: dict[str, str] = {}
    parts: dict[str, str] = {}
    found = recordings.filter(pl.col("key").is_in(list(of_recordings)))
    for path, key, num_frames, rate_hz in found.select("path", "key", "num_frames", "sample_rate_hz").iter_rows():
        planned = _segment_keys(key, num_frames, rate_hz, audio)
        hits = [segment for segment in planned if segment in keys]
        named.update(hits)
        if key in keys:
            named.add(key)
            whole[path] = key
        elif hits and len(hits) == len(planned):
            whole[path] = SEPARATOR.join(hits)
        elif hits:
            parts[path] = SEPARATOR.join(hits)
    return Exclusions(whole, parts, tuple(sorted(keys - named)))


def _segment_keys(key: str, num_frames: int, rate_hz: int, audio: AudioFormat) -> list[str]:
    """Keys of all segments of a recording, in order. Empty if recordings are not cut, or this one cannot be cut."""
    if audio.segment_seconds is None:
        return []
    try:
        return [segment_key(key, segment.index) for segment in plan_segments(num_frames, rate_hz, audio)]
    except ConfigError:
        return []
