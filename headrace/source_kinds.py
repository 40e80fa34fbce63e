"""The kinds of sources by name (`source.kind`): those of Headrace, and those that installed packages register.

A package registers a kind by an entry point of the group `headrace.sources` that names a `SourceKind`. The module of a
kind is imported when a data set uses the kind. This module opens no source.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel, ConfigDict

from headrace.errors import ConfigError

FILES = "files"
"""The default kind: the files of a folder or bucket."""

GROUP = "headrace.sources"
"""The group of entry points."""

ROW_PLACE = "\0place"
"""Name under which a row of a corpus may say where it is, for messages: `line 7 of FILE`. It is not a column. A row
without it is named by its path and id."""

_OWN = {
    FILES: "headrace.sources.sources:FILES_KIND",
    "headrace": "headrace.sources.kinds.output:KIND",
    "kaldi": "headrace.sources.kinds.kaldi:KIND",
    "lhotse": "headrace.sources.kinds.lhotse:KIND",
    "nemo": "headrace.sources.kinds.nemo:KIND",
    "parquet": "headrace.sources.kinds.parquet:KIND",
    "tfrecord": "headrace.sources.kinds.tfrecord:KIND",
    "webdataset": "headrace.sources.kinds.webdataset:KIND",
}


class NoOptions(BaseModel):
    """The options of a kind that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source.

    Attributes:
        open: opens a corpus (`headrace.sources.sources.Corpus`). Its arguments are `source.uri` (an absolute path or a
            URL), the options, and the paths below the URI that are not part of the corpus, such as the output.
        options: the model of `source.options`: its keys, their types and defaults.
        has_rows: whether a corpus has rows of its own, which are the samples.
        columns: the columns of these rows that have a meaning (`source.columns`), where a row has them; the YAML may
            name others. All else is metadata, whatever its name.
        fields: options → `source.fields` for these rows.
        types: column → its declared type (`source.table.types`), where rows have it.
    """

    open: Callable[[str, Any, Sequence[str]], Any]
    options: type[BaseModel] = NoOptions
    has_rows: bool = True
    columns: Mapping[str, str] = field(default_factory=lambda: {"key": "id"})
    fields: Callable[[Any], Mapping[str, str]] = lambda options: {}  # noqa: ARG005
    types: Mapping[str, str] = field(default_factory=dict)


def kind_names() -> list[str]:
    """Names of all kinds, sorted."""
    return sorted({*_OWN, *(point.name for point in entry_points(group=GROUP))})


def source_kind(name: str) -> SourceKind:
    """The kind of this name.

    Raises:
        ConfigError: there is no such kind, or the package that registers it cannot be imported.
    """
    kind = _registered(name) if name not in _OWN else _imported(_OWN[name])
    if not isinstance(kind, SourceKind):
        raise ConfigError(f"the entry point {name!r} of the group {GROUP} names {kind!r}, expected a SourceKind")
    return kind


def _registered(name: str) -> object:
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        raise ConfigError(f"unknown kind {name!r}; the kinds are {', '.join(kind_names())}")
    try:
        return found.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"kind {name!r}: {found.value} cannot be imported: {error}") from error


def _imported(place: str) -> object:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
