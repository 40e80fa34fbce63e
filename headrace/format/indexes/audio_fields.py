"""Named audio fields: samples of several audio files, such as a mix and its stems.

Field `vocals` of a sample is the member `<key>.vocals.flac`. A shard's index lists the names of its audio fields; a
shard without such a list has the one field `audio`, `<key>.flac`. This module has the rules for names and for the
length of a sample; nothing is read here.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from headrace.audio import AudioReject
from headrace.errors import AudioError
from headrace.format.tars.member_names import members_of

AUDIO = "audio"
"""Name of the audio field of samples without named audio fields."""
FIELD_TOLERANCE_SECONDS = 0.05
"""Tolerated difference in length of the fields of one sample; the sample then ends with the shortest field."""


def stated_audio_fields(metadata: Mapping[str, Any], fields: Collection[str]) -> tuple[str, ...]:
    """Names of the audio fields that the JSON of a sample lists, as in shards of Headrace; empty if it lists none.

    Args:
        metadata: the JSON; `headrace.fields` has an entry for each named audio field.
        fields: the files of the sample; if none of them holds a listed field, the list is not used.
    """
    facts = metadata.get("headrace")
    listed = facts.get("fields") if isinstance(facts, dict) else None
    names = tuple(listed) if isinstance(listed, dict) else ()
    return names if any(members_of(name, fields) for name in names) else ()


class AudioFacts(NamedTuple):
    """Facts in the header of an audio file; `num_frames` is -1 if it is unknown."""

    num_frames: int
    sample_rate_hz: int
    num_channels: int


def common_facts(sample: Mapping[str, AudioFacts]) -> AudioFacts:
    """Length and rate of a sample with these audio fields: the shortest length; channels of the first field.

    Raises:
        AudioError: the fields differ in rate, or in length by more than `FIELD_TOLERANCE_SECONDS`.
    """
    first = next(iter(sample.values()))
    if len(sample) == 1:
        return first
    if len({facts.sample_rate_hz for facts in sample.values()}) > 1:
        raise AudioError(
            AudioReject.FIELDS_DIFFER, f"its audio fields differ in sample rate ({_listed(sample, 1)} Hz): {_WAY_OUT}"
        )
    lengths = [facts.num_frames for facts in sample.values()]
    if max(lengths) - min(lengths) > FIELD_TOLERANCE_SECONDS * first.sample_rate_hz:
        raise AudioError(
            AudioReject.FIELDS_DIFFER,
            f"its audio fields differ in length by more than {FIELD_TOLERANCE_SECONDS} s ({_listed(sample, 0)} frames "
            f"at {first.sample_rate_hz} Hz): {_WAY_OUT}",
        )
    return AudioFacts(min(lengths), first.sample_rate_hz, first.num_channels)


def of_field(name: str, error: AudioError) -> AudioError:
    """The error of a named audio field, with the name of the field in its message."""
    return AudioError(error.reason, f"audio field {name!r}: {error}")


_WAY_OUT = "crops could not cut them at the same time; write the sample again with fields of one length and rate"


def _listed(sample: Mapping[str, AudioFacts], place: int) -> str:
    return ", ".join(f"{name}: {facts[place]}" for name, facts in sample.items())
