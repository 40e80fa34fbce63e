"""The section `source` of a data set's YAML and the top-level key `exclude`: which recordings are in the data set."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from headrace.config.section import Section, Uri, checked_object, checked_uri
from headrace.errors import ConfigError


class Duplicates(StrEnum):
    """What to do with recordings that have the same bytes (`source.duplicates`)."""

    KEEP = "keep"
    """Keep all. A check warns if they are in different splits."""
    DROP = "drop"
    """Keep the first path and reject the others."""
    GROUP = "group"
    """Keep all, in one group and therefore in one split."""


class Digests(StrEnum):
    """Where the digests of recordings come from (`source.digests`)."""

    READ = "read"
    """The scan reads every byte of a new or changed recording, and computes its SHA-256."""
    STORE = "store"
    """The scan reads the header only, and uses the object's ETag. For buckets."""


class JsonContent(StrEnum):
    """What the JSON of a sample in a tar holds (`source.json`)."""

    EMBED = "embed"
    """The user's metadata and the provenance."""
    MINIMAL = "minimal"
    """The provenance only: a change of the metadata writes no tar again."""


class SourceConfig(Section):
    """The recordings, their metadata, and which recordings become samples.

    Attributes:
        uri: folder or bucket prefix of the recordings.
        metadata: CSV, TSV, JSONL or Parquet file with a column `path`, joined to the recordings.
        samples: what becomes a sample: a recording (`files`), or a row of the metadata (`rows`, not supported yet).
        duplicates: what to do with recordings that have the same bytes.
        digests: where the digests of recordings come from.
        settle_seconds: a file that changed more recently is left for the next scan.
        min_seconds: shorter recordings are rejected.
        key_column: metadata column whose values become sample keys; null derives every key from the path.
        json_content: what the JSON in the tars holds; in the YAML `json`.
        validation: `module:object`, a pandera (polars) schema for the metadata columns; in the YAML `schema`.
    """

    uri: Uri
    metadata: Uri | None = None
    samples: Literal["files", "rows"] = "files"
    duplicates: Duplicates = Duplicates.KEEP
    digests: Digests = Digests.READ
    settle_seconds: float = Field(5.0, ge=0, allow_inf_nan=False)
    min_seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    key_column: str | None = Field(None, min_length=1)
    json_content: JsonContent = Field(JsonContent.EMBED, alias="json")
    validation: Annotated[str, AfterValidator(checked_object)] | None = Field(None, alias="schema")


def check_samples(source: SourceConfig) -> None:
    """Raise `ConfigError` for `samples: rows`, which is not supported yet."""
    if source.samples == "rows":
        raise ConfigError(
            "source.samples: rows is not supported yet: in this version each sample comes from a file with at most one "
            "metadata row; set source.samples: files, and write one row per recording"
        )


def _checked_exclude(value: object) -> object:
    if isinstance(value, str):
        if not value:
            raise ValueError("the path is empty; write [] to exclude nothing")
        return checked_uri(value)
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list of keys: […], or the path or URI of a table with a column `key`")  # noqa: TRY004 - pydantic reports ValueError only
    if wrong := [key for key in value if not (isinstance(key, str) and key)]:
        raise ValueError(f"keys are text; write {wrong[0]!r} in quotes" if wrong[0] else "a key is empty")
    return tuple(value)


Exclude = Annotated[tuple[str, ...] | str, BeforeValidator(_checked_exclude)]
"""Keys of samples to leave out, or the path or URL of a table of these keys."""
