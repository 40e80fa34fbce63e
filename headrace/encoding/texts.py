"""Reads the texts of the samples of an audio shard from their JSON; the audio is not read. Does not import torch."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.checksums import crc32
from headrace.encoders.protocol import TokenIds
from headrace.encoding.plans import EncodingRun, LatentPlan
from headrace.errors import BuildError, ConfigError, FormatError, IntegrityError
from headrace.format.beside.column_files import read_columns
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.typed_json import sample_json
from headrace.stores.refetch import DAMAGED_IN_STORE
from headrace.stores.storage import Storage

TEXTS = "texts"
"""The entry of the JSON of a latent sample, under `headrace`, with the digest of each of its texts."""


@dataclass(frozen=True, slots=True, eq=False)
class TextItem:
    """A text to encode.

    Attributes:
        shard: file name of the audio shard of the first sample that has it, for messages.
        key: key of this sample.
        ids: numbers of its tokens, int64 (N,).
    """

    shard: str
    key: str
    ids: TokenIds


@dataclass(frozen=True, slots=True)
class TextShard:
    """The samples of an audio shard, without their audio.

    Attributes:
        keys: their keys, in the order of the tar.
        jsons: their JSON.
        texts: the texts of each; None where they are null or missing.
    """

    keys: tuple[str, ...]
    jsons: tuple[bytes, ...]
    texts: tuple[tuple[str, ...] | None, ...]


def read_texts(route: EncodingRun, plan: LatentPlan) -> TextShard:
    """The texts of the samples of an audio shard, from their JSON or from a set of columns.

    Raises:
        ConfigError: there is no such column.
        FormatError: a sample has no JSON, or an invalid one.
        IntegrityError: the JSON is damaged.
        BuildError: a value is neither a text nor a list of texts.
    """
    index, column = read_index(route.audio, plan.audio_shard), route.column
    keys, jsons = tuple(index.keys()), tuple(json_texts(route.audio, index))
    if route.columns is None:
        contents = (sample_json(text, index.shard, key) for key, text in zip(keys, jsons, strict=True))
        values = [_value(content, column, f"{route.audio.uri}/{index.shard}") for content in contents]
    else:
        values = column_values(route.columns, plan.columns, column.partition(".")[2])
    places = (f"{index.shard}: sample {key!r}" for key in keys)
    texts = tuple(texts_of(value, column, place) for value, place in zip(values, places, strict=True))
    return TextShard(keys, jsons, texts)


def _value(content: Mapping[str, Any], column: str, shard: str) -> Any:  # noqa: ANN401 - a value of JSON
    """The value of a column in the JSON of a sample, which has each column of the metadata, nulls included."""
    if column not in content:
        names = ", ".join(sorted(content.keys() - {"headrace"})) or "none"
        raise ConfigError(f"{shard}: latents of text: the metadata has no column {column!r}; the columns are {names}")
    return content[column]


def column_values(storage: Storage, name: str, column: str) -> list[Any]:
    """The values of a column in a file of columns, in the order of the audio shard.

    Raises:
        ConfigError: it has no such column.
    """
    table = read_columns(storage, name)
    names = [spec.name for spec in table.specs if not spec.is_fact]
    if column not in names:
        raise ConfigError(f"{storage.uri}: no column {column!r}; the columns are {', '.join(names) or 'none'}")
    found = table.column(column)
    return [found.value(row) for row in range(len(found))]


def json_texts(storage: Storage, index: ShardIndex, rows: Sequence[int] | None = None) -> list[bytes]:
    """The JSON of samples of a shard, of all by default, compared with the checksums of the index.

    Raises:
        FormatError: a sample has none.
        IntegrityError: the JSON is damaged.
    """
    numbers = range(len(index)) if rows is None else rows
    spans = [index.range_of(row, "json") for row in numbers]
    there = [span for span in spans if span is not None]
    if len(there) < len(spans):
        key = index.key(numbers[spans.index(None)])
        raise FormatError(f"{index.shard}: sample {key!r} lacks .json; build the shard again")
    found = storage.read_ranges(index.shard, there)
    for row, text in zip(numbers, found, strict=True):
        if index.crc32[row, index.fields.index("json")] not in {ABSENT, crc32(text)}:
            raise IntegrityError(f"{index.shard}: {index.key(row)}.json has a wrong CRC-32; {DAMAGED_IN_STORE}")
    return found


def texts_of(value: object, column: str, place: str) -> tuple[str, ...] | None:
    """The texts of a value of a column: one, or those of a list without its nulls; None without any text.

    >>> texts_of(["a dog", None, "barking"], "caption", "a")
    ('a dog', 'barking')

    Raises:
        BuildError: the value is neither a text nor a list of texts; the message begins with `place`.
    """
    given: list[Any] = value if isinstance(value, list) else [value]
    found = tuple(one for one in given if one is not None)
    if (wrong := next((one for one in found if not isinstance(one, str)), None)) is not None:
        raise BuildError(
            f"{place}: {column} is {wrong!r}, expected a text or a list of texts; name another column, or make it text"
        )
    return found or None


def digest_of(text: str) -> str:
    """The digest by which equal texts are known: 128 bits of its SHA-256, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
