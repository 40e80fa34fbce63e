"""The sections of a data set's YAML that say what is made: audio shards, columns, latents and views.

`headrace.config.operation` has the sections that say how it runs, `headrace.config.dataset` the whole file.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from headrace import features
from headrace.arguments import parse_bytes
from headrace.audio import AudioFormat, Codec, Transform
from headrace.config.partitioning import ShardSize
from headrace.config.section import Name, Section, checked_object
from headrace.config.tables import Table
from headrace.encoders import KINDS, kind_names
from headrace.errors import ConfigError

_ColumnName = Annotated[str, Field(min_length=1)]

METADATA_SET = "metadata"
_MOST_PARTITIONS = 100_000  # of a split: each has files of its own, and is a unit of work for Dagster
_FACTS = "fact"  # `fact.split` is a fact of the catalog
"""Name of the set of columns that every data set has: the user's metadata, and the facts of the catalog."""


def _checked_size(size: object) -> int | None:
    """A number of bytes. Raises `ValueError` for anything else than a size."""
    try:
        return parse_bytes(cast("int | str | None", size))
    except ConfigError as error:
        raise ValueError("expected a number of bytes, such as 100000000 or 100mb") from error


class TransformConfig(Section):
    """A function that every sample's audio goes through.

    Attributes:
        function: `module:function`.
        fingerprint: text to change when the function's results change.
    """

    function: Annotated[str, AfterValidator(checked_object)]
    fingerprint: Annotated[str, Field(min_length=1)]


class AudioConfig(Section):
    """Format of the audio in the shards; null keeps the format of the source file.

    Attributes:
        codec: `flac`, `opus`, or `copy`, which keeps the bytes of recordings that are in the wanted form.
        bitrate: bits per second for each channel, for Opus only; null is 64,000.
        transform: what is done with a sample's audio before it gets this format.
    """

    sample_rate: int | None = Field(None, ge=1, le=655_350)
    num_channels: int | None = Field(None, ge=1, le=8)
    bits_per_sample: Literal[16, 24] | None = None
    codec: Codec = Codec.FLAC
    bitrate: int | None = None
    compression_level: int = Field(5, ge=0, le=8)
    segment_seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    last_segment: Literal["keep", "drop"] = "keep"
    transform: TransformConfig | None = None

    @model_validator(mode="after")
    def _fits_the_codec(self) -> Self:
        try:
            self.format()
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("audio.")) from error
        return self

    def format(self) -> AudioFormat:
        """The settings as the library's own type."""
        return AudioFormat(
            sample_rate_hz=self.sample_rate,
            num_channels=self.num_channels,
            bits_per_sample=self.bits_per_sample,
            compression_level=self.compression_level,
            segment_seconds=self.segment_seconds,
            last_segment=self.last_segment,
            codec=self.codec,
            bitrate=self.bitrate,
            transform=None if self.transform is None else Transform(**self.transform.model_dump()),
        )


class ShardsConfig(Section):
    """Size of the shards and number of partitions.

    Attributes:
        samples_per_shard: samples in a full shard.
        bytes_per_shard: instead of it: the most planned bytes of a shard, as a number or a size such as `100mb`.
        partitions: split → number of its partitions, at most 100,000; 1 for a split that is not named.
        reshuffle: raise this number to assign all samples to shards again, as for an empty output.
    """

    samples_per_shard: int = Field(50, ge=1)
    bytes_per_shard: Annotated[int | None, BeforeValidator(_checked_size)] = None
    reshuffle: int = Field(0, ge=0)
    partitions: dict[str, Annotated[int, Field(ge=1, le=_MOST_PARTITIONS)]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _null_is_no_size(cls, content: object) -> object:
        if not isinstance(content, dict) or content.get("bytes_per_shard") is None:
            return content
        return {key: value for key, value in content.items() if (key, value) != ("samples_per_shard", None)}

    @model_validator(mode="after")
    def _has_one_size(self) -> Self:
        if self.bytes_per_shard is not None and "samples_per_shard" in self.model_fields_set:
            raise ValueError(
                f"both samples_per_shard: {self.samples_per_shard} and bytes_per_shard: {self.bytes_per_shard} are "
                "given; keep one of them"
            )
        return self

    @property
    def size(self) -> ShardSize:
        """The size of a full shard, as the library's own type."""
        if self.bytes_per_shard is not None:
            return ShardSize(bytes_per_shard=self.bytes_per_shard)
        return ShardSize(samples_per_shard=self.samples_per_shard)


class EncoderConfig(BaseModel):
    """The kind of an encoder, and its own settings, which the encoder validates."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in KINDS and kind not in kind_names():
            raise ValueError(f"expected one of {', '.join(kind_names())}")
        return kind

    @property
    def settings(self) -> dict[str, Any]:
        """All keys except `kind`."""
        return dict(self.model_extra or {})


class LatentsConfig(Section):
    """One set of latents.

    Attributes:
        name: name of the folder and of the assets.
        encoder: the encoder that computes the latents.
        dtype: stored type.
        audio_field: audio field that the latents are made from; None for the first; in the YAML `field`.
        column: metadata column with the texts that they are made from, or `set.column`, for `kind: text` only.
        frame_aligned: metadata columns whose lists have one entry per latent frame; each has a check.
        max_rejected: largest share of samples whose latents may be rejected because they are not finite or do not fit
            the dtype; above it, no snapshot is committed.
    """

    name: Name
    encoder: EncoderConfig
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    audio_field: str | None = Field(None, alias="field")
    column: _ColumnName | None = None
    frame_aligned: tuple[_ColumnName, ...] = ()
    max_rejected: float = Field(0.01, ge=0, le=1)

    @field_validator("frame_aligned")
    @classmethod
    def _columns_differ(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(columns)) != len(columns):
            raise ValueError(f"a column is listed twice: {', '.join(columns)}")
        return columns

    @property
    def fits_centroids(self) -> bool:
        """Whether an asset of its own fits the centroids of these units."""
        return self.encoder.kind == "kmeans" and self.encoder.settings.get("num_codes") is not None

    @model_validator(mode="after")
    def _has_one_input(self) -> Self:
        if (self.encoder.kind == "text") != (self.column is not None):
            raise ValueError("encoders of kind text need the column with the texts, `column`; others take none")
        if self.column is not None and (self.audio_field is not None or self.frame_aligned):
            raise ValueError("latents of a text column have neither `field` nor `frame_aligned`; remove them")
        return self


class ColumnSetConfig(Section):
    """One set of columns, from a table that is joined to the samples.

    Attributes:
        name: name of the folder and of the assets.
        table: CSV, TSV, JSON Lines or Parquet file, and how it is read.
        on: whether the table is joined by keys of samples or by paths of recordings. None takes what `key` or `path`
            implies, and without them `key` if the table has such a column, otherwise `path`.
        key: the column with the keys of samples; implies `on: key`.
        path: the column with the paths of recordings; implies `on: path`.
        optional: whether the table may come later: until then, this set is not made.
    """

    name: Name
    table: Table
    on: Literal["key", "path"] | None = None
    key: _ColumnName | None = None
    path: _ColumnName | None = None
    optional: bool = False

    @model_validator(mode="before")
    @classmethod
    def _on_is_a_key(cls, content: object) -> object:
        """YAML 1.1, which loaders of other projects follow, reads the key `on` as true."""
        if isinstance(content, Mapping) and True in content:
            return {("on" if key is True else key): value for key, value in content.items()}
        return content

    @model_validator(mode="after")
    def _joins_one_column(self) -> Self:
        """Check the joining column. Raises `ValueError` if `key`, `path` and `on` contradict each other."""
        if self.key is not None and self.path is not None:
            raise ValueError("both key and path are given; keep the one that names the joining column")
        implied = "key" if self.key is not None else "path" if self.path is not None else self.on
        if self.on not in {None, implied}:
            raise ValueError(f"on: {self.on} contradicts {implied}: {self.key or self.path}; remove one of them")
        return self

    @property
    def joined(self) -> dict[str, str]:
        """Field that the table may be joined by → the column that has it, the first choice first."""
        if self.key is not None or self.path is not None:
            return {"key": self.key} if self.key is not None else {"path": str(self.path)}
        return {name: name for name in ((self.on,) if self.on else ("key", "path"))}

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        return checked_set_name(name)


def checked_set_name(name: str) -> str:
    """The name of a set of columns. Raises `ValueError` if it is taken."""
    if name == METADATA_SET:
        raise ValueError("this set holds source.metadata and the facts of the catalog; choose another name")
    if name == _FACTS:
        raise ValueError("in conditions of views, this name means the facts of the catalog; choose another name")
    return name


class FeatureConfig(Section):
    """One set of columns that is computed from the audio. Other keys are settings of the kind.

    Attributes:
        name: name of the folder and of the assets; one space of names with `columns`.
        kind: what is computed: one of `headrace.features.KINDS`.
        audio_field: audio field that it is computed from; None for the first; in the YAML `field`.
    """

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    name: Name
    kind: str
    audio_field: str | None = Field(None, alias="field")

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        return checked_set_name(name)

    @property
    def settings(self) -> dict[str, Any]:
        """The keys that are settings of the kind."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        """Check kind and settings. Raises `ValueError` that names what is wrong."""
        try:
            features.check(self.kind, self.settings)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self


class BalanceConfig(Section):
    """Balance of groups of samples in a view.

    Attributes:
        by: the column whose values are the groups; null is a group.
        alpha: 1 changes nothing, 0 makes groups equal.
    """

    by: str = Field(min_length=1)
    alpha: float = Field(ge=0, le=1, allow_inf_nan=False)


class ViewConfig(Section):
    """One view: how often each sample comes in an epoch.

    Attributes:
        where: a condition on columns, in SQL; null takes every sample.
        balance: how the groups of these samples are balanced; null takes each once.
        times: an expression of numbers: how often each of these samples comes; null: once.
    """

    where: str | None = Field(None, min_length=1)
    balance: BalanceConfig | None = None
    times: str | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _chooses(self) -> Self:
        if self.where is None and self.balance is None and self.times is None:
            raise ValueError("a view needs `where`, `balance` or `times`")
        if self.balance is not None and self.times is not None:
            raise ValueError("`balance` and `times` both say how often samples come: name one of them")
        if self.where is not None and not self.where.strip():
            raise ValueError("where is blank; write a condition, or leave it out")
        return self
