"""Chooses which fields of samples are read, if a user wants only some of them.

A field that is not wanted looks to all readers as if the sample did not have it, so it is neither read nor decoded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.errors import ConfigError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.tars.member_names import JSON_FIELD
from headrace.format.tars.tar_names import is_packed_tar
from headrace.streaming.samples.stored_sample import FieldColumns, StoredSample, field_columns

METADATA = "metadata"
_SMALL_PART = 0.5  # of a shard's bytes; for a larger part the whole shard is downloaded


@dataclass(frozen=True, slots=True)
class ChosenFields:
    """The fields that are wanted of a stream's own samples.

    Attributes:
        names: names of the fields, as in a batch.
        own_latents: the names of the latents in the stream's own folder.
    """

    names: frozenset[str]
    own_latents: frozenset[str]

    def narrow(self, sample: StoredSample) -> None:
        """Remove the fields that are not wanted from a sample."""
        columns = sample.columns = _kept(sample.columns, self)
        if columns.latents is None:
            sample.tensor, sample.rejection = None, ""
        if not columns.audio:
            sample.audio_facts = ()
        elif sample.audio_facts:
            facts = zip(field_columns(columns.names, _named(sample)).audio, sample.audio_facts, strict=True)
            sample.audio_facts = [found for field, found in facts if field.name in self.names]
        audio = {found.span for found in sample.audio()}
        of_audio = {column for field in columns.audio for column, _ in field.columns}
        wanted = {columns.latents, columns.json, *(column for _, column in columns.extra)}
        for column in range(len(columns.names)):
            is_audio = column in of_audio and sample.span(column) in audio
            if not is_audio and (column in of_audio or column not in wanted):
                sample.spans[2 * column] = sample.spans[2 * column + 1] = ABSENT
                sample.crc32[column] = ABSENT

    def is_small_part(self, index: ShardIndex, shard: str) -> bool:
        """Whether the wanted fields are so small a part of a shard that they are fetched by ranges."""
        if is_packed_tar(shard) or not len(index):
            return False
        kept = _kept(field_columns(index.fields, index.audio_fields), self)
        columns = {kept.latents, kept.json, *(column for _, column in kept.extra)}
        columns |= {column for field in kept.audio for column, _ in field.columns}
        chosen = sorted(column for column in columns if column is not None)
        sizes = index.ranges[:, chosen, 1] - index.ranges[:, chosen, 0]
        return bool(sizes.sum() < _SMALL_PART * index.num_bytes)


def check_fields(
    wanted: Iterable[str], indexes: Iterator[ShardIndex], others: Iterable[str], own_latents: Iterable[str], place: str
) -> None:
    """Raise `ConfigError` if there is no field of a wanted name.

    Args:
        wanted: the names.
        indexes: indexes of the shards, which are read until all names are found.
        others: fields that are not in the shards: joined latents.
        own_latents: the names of the latents in the shards.
        place: where the shards are, for the message.
    """
    known = {METADATA, *others}
    missing, note = set(wanted) - known, ""
    for index in indexes if missing else ():
        known |= _names(index, own_latents)
        missing -= known
        if not missing:
            return
        if (columns := field_columns(index.fields, index.audio_fields)).audio and columns.latents is not None:
            note = "; named outputs in one sample with audio, as of an export, come only without `fields`"
    if missing:
        raise ConfigError(
            f"fields: the samples in {place} have no field {min(missing)!r}; they have {', '.join(sorted(known))}{note}"
        )


def _names(index: ShardIndex, own_latents: Iterable[str]) -> set[str]:
    """Names of the fields that the samples of a shard have in a batch."""
    columns = field_columns(index.fields, index.audio_fields)
    audio = {field.columns[0][0] for field in columns.audio if field.columns}
    found = {field.name for field in columns.audio}
    found |= {name for name, column in columns.extra if column not in audio}
    found |= {METADATA} if JSON_FIELD in index.fields else set()
    return found | (set(own_latents) if columns.latents is not None else set())


def _named(sample: StoredSample) -> tuple[str, ...]:
    """Names of the audio fields that the sample's shard lists."""
    return sample.access.index(sample.shard).audio_fields


@lru_cache(maxsize=256)
def _kept(columns: FieldColumns, chosen: ChosenFields) -> FieldColumns:
    """The columns of the fields that are wanted."""
    audio = tuple(field for field in columns.audio if field.name in chosen.names)
    of_audio = {column for field in audio for column, _ in field.columns}
    return replace(
        columns,
        audio=audio,
        latents=columns.latents if chosen.own_latents & chosen.names else None,
        json=columns.json if METADATA in chosen.names else None,
        extra=tuple(pair for pair in columns.extra if pair[0] in chosen.names or pair[1] in of_audio),
        is_narrowed=True,
    )
