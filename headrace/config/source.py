"""The section `source` of a data set's YAML and the top-level key `exclude`: which recordings are in the data set."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from headrace.audio_names import AUDIO_EXTENSIONS, check_audio_field
from headrace.config.error_lines import error_line
from headrace.config.section import Section, Uri, checked_object, checked_uri
from headrace.config.tables import ColumnType, TableConfig, TableFile, checked_table
from headrace.path_patterns import path_pattern
from headrace.path_templates import checked_path_columns, columns_of
from headrace.source_kinds import FILES, SourceKind, source_kind


class SampleKind(StrEnum):
    """Unit that becomes a sample (`source.samples`)."""

    FILES = "files"
    """A recording, or its segments."""
    ROWS = "rows"
    """A row of the metadata table: a span of a recording."""


class KeyForm(StrEnum):
    """Treatment of a key with characters that a key may not have (`source.key_form`)."""

    AS_IS = "as_is"
    """The recording or row is rejected."""
    SLUG = "slug"
    """The key becomes a slug of itself and digits of its SHA-256."""


class Duplicates(StrEnum):
    """Treatment of recordings that have the same bytes (`source.duplicates`)."""

    KEEP = "keep"
    """Keep all. A check warns if they are in different splits."""
    DROP = "drop"
    """Keep the first path and reject the others."""
    GROUP = "group"
    """Keep all, in one group and therefore in one split."""


class Digests(StrEnum):
    """Origin of the digests of recordings (`source.digests`)."""

    READ = "read"
    """The scan reads every byte of a new or changed recording, and computes its SHA-256."""
    STORE = "store"
    """The scan reads the header only, and uses the object's ETag. For buckets."""


class JsonContent(StrEnum):
    """Content of the JSON of a sample in a tar (`source.json`)."""

    EMBED = "embed"
    """The user's metadata and the provenance."""
    MINIMAL = "minimal"
    """The provenance only: a change of the metadata writes no tar again."""


_MOST_SETTLING = 1e9  # thirty years; times are nanoseconds since 1970, in 64 bits
_OTHER_AUDIO = ("oga", "sph", "mp4", "webm", "wma", "aac")
_OF_FILES = ("digests", "follow_links", "ignore", "path_columns", "sidecars")
"""Keys that are about the files of a folder or bucket."""

SPAN_ROLES = ("start", "end", "duration")
"""Columns that are the span of a row, in seconds: the keys of `source.columns`, and their default names in a table."""

OF_INTERVALS = {"start": "start", "end": "end"}
"""`source.columns` of rows that are intervals (`source.rows`)."""

_ColumnName = Annotated[str, Field(min_length=1)]


def _listed(value: object) -> object:
    if isinstance(value, str) and value:
        return (checked_uri(value),)
    if value is not None and not (isinstance(value, list | tuple) and value):
        raise ValueError("expected the path, the URL or a glob pattern of a table, or a list of these")
    return value


def _joined(value: object) -> object:
    """Several places as one text, which kinds divide at its commas; URLs first, so that the text is a URL."""
    if not isinstance(value, list | tuple):
        return value
    if not (value and all(isinstance(one, str) and one for one in value)):
        raise ValueError("expected a path or URL, or a list of these")
    if wrong := next((one for one in value if "," in one), None):
        raise ValueError(f"{wrong!r}: a path in a list cannot have a comma")
    return ",".join(sorted(map(checked_uri, value), key=lambda one: "://" not in one))


def _checked_pattern(pattern: str) -> str:
    try:
        path_pattern(pattern)
    except re.error as error:
        raise ValueError(f"not a glob pattern: {error}") from error
    if not pattern or pattern.startswith(("/", "./")):
        raise ValueError("expected a pattern of names, such as *.txt, or of paths relative to uri, such as raw/**")
    return pattern


def _checked_extensions(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not re.fullmatch(r"[^./*?\[]+(\.[^./*?\[]+)*", name):
            raise ValueError(f"expected extensions without the dot, such as json or txt; found {name!r}")
        if name.lower().rpartition(".")[2] in (*AUDIO_EXTENSIONS, *_OTHER_AUDIO):
            raise ValueError(f"{name!r} is an extension of audio, so each recording would be a sidecar; take it out")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError("an extension is there twice")
    return names


class ColumnsConfig(Section):
    """Which columns of the metadata table name the recording, the span and the key. null: the table has no such column.

    Attributes:
        path: path of the recording; `path` if the key is not given. With braces a template over the row
            (`headrace.path_templates`).
        start: begin of the span, seconds; a column `start`, if the table has one.
        end: end of the span, seconds; a column `end`, if the table has one and `duration` is not given.
        duration: length of the span, seconds; a column `duration`, if the table has one and `end` is not given.
        key: key of the sample. Without it, keys are made from paths.
        channel: channels of the recording that become the sample; null: all.
    """

    path: _ColumnName = "path"
    start: _ColumnName | None = None
    end: _ColumnName | None = None
    duration: _ColumnName | None = None
    key: _ColumnName | None = None
    channel: _ColumnName | None = None


class SourceConfig(Section):
    """The recordings, their metadata, and which recordings become samples.

    Attributes:
        uri: folder or bucket prefix of the recordings; for all kinds but `files` and `kaldi` also a list.
        metadata: paths, URLs and glob patterns of CSV, TSV, JSON, JSONL or Parquet files, which are one table with a
            column `path`, joined to the recordings; in the YAML also one path.
        table: how the file of the metadata is read.
        where: a condition on the columns of the metadata, in SQL: rows that do not fulfil it are left out.
        samples: what becomes a sample: a recording (`files`), or a row of the metadata (`rows`).
        rows: column of intervals of the metadata, or of sidecars, each of which is a row; implies `samples: rows`.
        columns: which columns of the metadata have a meaning.
        fields: audio field → column with the path of its file. The first is the recording itself. Empty: one field.
        key_form: what to do with keys that have other characters than a key may have.
        span_tolerance_seconds: a span that ends at most this much after its recording's end is cut there.
        duplicates: what to do with recordings that have the same bytes.
        digests: where the digests of recordings come from.
        settle_seconds: a file that changed more recently is left for the next scan.
        min_seconds: shorter recordings are rejected.
        json_content: what the JSON in the tars holds; in the YAML `json`.
        path_columns: template of the paths of recordings, whose names become columns of text.
        ignore: glob patterns of files that are no recordings; one without `/` is about names.
        follow_links: whether symbolic links may lead out of `uri`.
        labels: columns of text whose values get numbers, which tensors of the loader have; they stay when values are
            added.
        sidecars: extensions of files beside recordings whose values become columns.
        validation: `module:object`, a pandera (polars) schema for the metadata columns; in the YAML `schema`.
        kind: what the source is (`headrace.source_kinds`).
        options: settings of this kind.
    """

    uri: Annotated[Uri, BeforeValidator(_joined)]
    metadata: Annotated[tuple[Uri, ...] | None, BeforeValidator(_listed)] = None
    table: TableConfig = TableConfig()
    where: Annotated[str, Field(min_length=1, pattern=r"\S")] | None = None
    samples: SampleKind = SampleKind.FILES
    rows: _ColumnName | None = None
    columns: ColumnsConfig = ColumnsConfig()
    fields: dict[Annotated[str, AfterValidator(check_audio_field)], _ColumnName] = Field(default_factory=dict)
    key_form: KeyForm = KeyForm.AS_IS
    span_tolerance_seconds: float = Field(0.05, ge=0, allow_inf_nan=False)
    duplicates: Duplicates = Duplicates.KEEP
    digests: Digests = Digests.READ
    settle_seconds: float = Field(5.0, ge=0, le=_MOST_SETTLING, allow_inf_nan=False)
    min_seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    json_content: JsonContent = Field(JsonContent.EMBED, alias="json")
    validation: Annotated[str, AfterValidator(checked_object)] | None = Field(None, alias="schema")
    path_columns: Annotated[str, AfterValidator(checked_path_columns)] | None = None
    ignore: tuple[Annotated[str, AfterValidator(_checked_pattern)], ...] = ()
    follow_links: bool = False
    sidecars: Annotated[tuple[str, ...], AfterValidator(_checked_extensions)] = ()
    labels: tuple[_ColumnName, ...] = ()
    kind: Annotated[str, Field(min_length=1)] = FILES
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _kind_has_defaults(cls, content: Any) -> Any:  # noqa: ANN401 - what the YAML has
        """Check the options. Add what the kind implies: with rows of its own `samples: rows`, its columns and slugs."""
        name = content.get("kind", FILES) if isinstance(content, dict) else FILES
        if not isinstance(name, str):
            return content
        if name == FILES and isinstance(content, dict) and isinstance(content.get("uri"), list | tuple):
            raise ValueError("uri: a list is for other kinds than files; name the folder above, and ignore the others")
        content = _with_types_of_rows(content)
        kind = source_kind(name)
        options = _checked_options(name, kind, content.get("options", {}) if isinstance(content, dict) else {})
        if not kind.has_rows:
            return content
        if (given := content.get("samples", SampleKind.ROWS)) != SampleKind.ROWS:
            raise ValueError(f"samples: {given}: a source of kind {name} has rows, which are the samples: rows")
        columns = content.get("columns", {})
        known = {role: column for role, column in kind.columns.items() if role in ColumnsConfig.model_fields}
        spans: dict[str, str | None] = dict.fromkeys(SPAN_ROLES)  # other columns with these names are metadata
        if content.get("rows") is not None:
            known.pop("key", None)  # of several rows with one key, one would remain
            known |= OF_INTERVALS
        if isinstance(columns, Mapping):
            for role, other in (("end", "duration"), ("duration", "end")):
                if columns.get(role) is not None:
                    known.pop(other, None)
            columns = {**spans, **known, **columns}
        implied = {"samples": SampleKind.ROWS, "key_form": KeyForm.SLUG, "fields": kind.fields(options)}
        return {**implied, **content, "columns": columns}

    def columns_in(self, names: Collection[str]) -> ColumnsConfig:
        """The columns with a meaning of a table whose rows, as the source has them, have columns with these names.

        Those that the kind of the source implies may be missing.
        """
        implied, given = source_kind(self.kind).columns, self.columns.model_dump(include=self.columns.model_fields_set)
        lacking = {role for role, column in implied.items() if given.get(role) == column and column not in names}
        if self.has_own_rows and self.metadata is not None and self.columns.key not in names:
            lacking.add("key")  # it joins the metadata to the rows; several intervals of a row would have it
        given |= dict.fromkeys(lacking & set(SPAN_ROLES))
        return ColumnsConfig(
            **{role: column for role, column in given.items() if column is None or role not in lacking}
        )

    @property
    def has_own_rows(self) -> bool:
        """Whether the source has rows of its own, without `metadata`."""
        return source_kind(self.kind).has_rows

    @model_validator(mode="after")
    def _settings_are_of_the_kind(self) -> Self:
        if self.kind != FILES and (given := [name for name in _OF_FILES if name in self.model_fields_set]):
            raise ValueError(f"{given[0]} is for kind files, and kind is {self.kind}; remove one of them")
        if self.has_own_rows and self.metadata is not None and self.columns.key is None:
            raise ValueError("metadata needs columns.key: the column by which it is joined to the rows of the source")
        return self

    @model_validator(mode="after")
    def _settings_have_a_table(self) -> Self:
        if self.has_own_rows:
            return self
        if self.metadata is None and self.where is not None:
            raise ValueError("where needs metadata: the table whose columns the condition is about")
        of_sidecars = TableConfig(types=self.table.types if self.sidecars or self.rows else {})
        if self.metadata is None and self.table != of_sidecars:
            raise ValueError("table needs metadata: the table that it describes")
        return self

    @model_validator(mode="after")
    def _rows_have_a_table(self) -> Self:
        if self.samples == SampleKind.ROWS:
            if self.metadata is None and not self.has_own_rows and not (self.rows is not None and self.sidecars):
                raise ValueError("samples: rows needs metadata: the table whose rows are the samples")
            return self._checked_fields()
        if self.rows is not None:
            raise ValueError(f"rows: {self.rows} makes samples of rows; remove samples: {self.samples}")
        if self.fields:
            raise ValueError("fields needs samples: rows: each row has the paths of the files of a sample")
        spans = [role for role in ("start", "end", "duration", "channel") if getattr(self.columns, role) is not None]
        if spans:
            raise ValueError(f"columns.{spans[0]} needs samples: rows; with samples: files a recording is not cut")
        if self.metadata is None and self.columns != ColumnsConfig():
            role = "key" if self.columns.key is not None else "path"
            raise ValueError(f"columns.{role} needs metadata: the table that has this column")
        return self

    def _checked_fields(self) -> Self:
        """Check `fields`. Raises `ValueError` if `columns.path` is not the column of the first field."""
        first = next(iter(self.fields.values()), None)
        if self.fields and self.columns.channel is not None:
            raise ValueError("columns.channel and fields: a sample has chosen channels or several files, not both")
        if first is not None and "path" in self.columns.model_fields_set and self.columns.path != first:
            raise ValueError(f"columns.path: expected {first!r}, the column of the first of fields, or no such key")
        return self

    @property
    def path_column(self) -> str:
        """The column with the path of the recording: that of the first audio field, if there are named ones."""
        return next(iter(self.fields.values()), self.columns.path)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns whose values are text, even if they look like numbers: paths, parts of paths, and keys."""
        key = self.columns.key
        paths = (self.path_column, *self.fields.values())
        return (*(name for path in paths for name in columns_of(path)), *([] if key is None else [key]))


def _with_types_of_rows(content: Any) -> Any:  # noqa: ANN401 - what the YAML has
    """The section with what `rows` implies: `samples: rows`, and the type of its column."""
    rows, table = (content.get(name) for name in ("rows", "table")) if isinstance(content, dict) else (None, None)
    if not isinstance(rows, str) or not isinstance(table, Mapping | None):
        return content
    types = (table or {}).get("types", {})
    if not isinstance(types, Mapping):
        return content
    if types.get(rows, ColumnType.INTERVALS) != ColumnType.INTERVALS:
        raise ValueError(f"rows: {rows}: a column of intervals, but table.types says {types[rows]}; remove its type")
    implied = {**(table or {}), "types": {**types, rows: ColumnType.INTERVALS}}
    return {"samples": SampleKind.ROWS, **content, "table": implied}


def _checked_options(name: str, kind: SourceKind, options: object) -> object:
    """The options as the kind's own model. Raises `ValueError` that names each wrong key."""
    if not isinstance(options, Mapping):
        return options  # pydantic reports it
    try:
        return kind.options.model_validate(options)
    except ValidationError as error:
        has = "" if kind.options.model_fields else ", which has no options"
        faults = (error_line(fault, kind.options, options) for fault in error.errors())
        raise ValueError("; ".join(f"options.{fault} (kind: {name}{has})" for fault in faults)) from error


def _checked_exclude(value: object) -> object:
    if isinstance(value, str) and not value:
        raise ValueError("the path is empty; write [] to exclude nothing")
    if isinstance(value, str | Mapping | TableFile):
        return checked_table(value)
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list of keys: […], or the path or URI of a table with a column `key`")  # noqa: TRY004 - pydantic reports ValueError only
    if wrong := [key for key in value if not (isinstance(key, str) and key)]:
        raise ValueError(f"keys are text; write {wrong[0]!r} in quotes" if wrong[0] else "a key is empty")
    return tuple(value)


Exclude = Annotated[tuple[str, ...] | TableFile, BeforeValidator(_checked_exclude)]
"""Keys of samples to leave out, or a table of these keys (`headrace.config.tables.Table`)."""
