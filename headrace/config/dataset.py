"""The settings of a data set, and `load_config`, which reads them from a YAML file and validates them.

Every section of the file is a class with its keys and defaults. The section `source` is in `headrace.config.source`.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast
from zoneinfo import available_timezones

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from headrace.arguments import parse_bytes
from headrace.audio import AudioFormat, Codec
from headrace.config.cron import checked_cron
from headrace.config.error_lines import error_line
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.config.section import Name, Owner, Section, Uri, Variable
from headrace.config.shares import share_of
from headrace.config.source import Exclude, JsonContent, SampleKind, SourceConfig
from headrace.encoders import KINDS
from headrace.errors import ConfigError
from headrace.pydantic_words import shown


def _checked_share(share: str | float) -> str | float:
    """The share, unchanged. Raises `ValueError` for anything but a number above 0 and at most 1."""
    share_of(share)
    return share


def _checked_size(size: object) -> int | None:
    """A number of bytes. Raises `ValueError` for anything else than a size."""
    try:
        return parse_bytes(cast("int | str | None", size))
    except ConfigError as error:
        raise ValueError("expected a number of bytes, such as 100000000 or 100mb") from error


Cron = Annotated[str, AfterValidator(checked_cron)]
_SPLIT = re.compile(r"^[A-Za-z][A-Za-z0-9-]*$")
_SHARES_TOLERANCE = 1e-6
_YAML_BOOL, _YAML_TEXT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str"
METADATA_SET = "metadata"
"""Name of the set of columns that every data set has: the user's metadata, and the facts of the catalog."""


class AudioConfig(Section):
    """Format of the audio in the shards; null keeps the format of the source file.

    Attributes:
        codec: `flac`, `opus`, or `copy`, which keeps the bytes of recordings that are in the wanted form.
        bitrate: bits per second for each channel, for Opus only; null is 64,000.
    """

    sample_rate: int | None = Field(None, ge=1, le=655_350)
    num_channels: int | None = Field(None, ge=1, le=8)
    bits_per_sample: Literal[16, 24] | None = None
    codec: Codec = Codec.FLAC
    bitrate: int | None = None
    compression_level: int = Field(5, ge=0, le=8)
    segment_seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    last_segment: Literal["keep", "drop"] = "keep"

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
        )


class ShardsConfig(Section):
    """Size of the shards and number of partitions.

    Attributes:
        samples_per_shard: samples in a full shard.
        bytes_per_shard: instead of it: the most planned bytes of a shard, as a number or a size such as `100mb`.
        partitions: split → number of its partitions; 1 for a split that is not named.
        reshuffle: raise this number to assign all samples to shards again, as for an empty output.
    """

    samples_per_shard: int = Field(50, ge=1)
    bytes_per_shard: Annotated[int | None, BeforeValidator(_checked_size)] = None
    reshuffle: int = Field(0, ge=0)
    partitions: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)

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
        if kind not in KINDS:
            raise ValueError(f"expected one of {', '.join(sorted(KINDS))}")
        return kind

    @property
    def settings(self) -> dict[str, Any]:
        """All keys except `kind`."""
        return dict(self.model_extra or {})


_ONE_FIELD = "audio"


class LatentsConfig(Section):
    """One set of latents.

    Attributes:
        name: name of the folder and of the assets.
        encoder: the encoder that computes the latents.
        dtype: stored type.
        audio_field: audio field that the latents are made from; None for the first; in the YAML `field`.
        frame_aligned: metadata columns whose lists have one entry per latent frame; each has a check.
        max_rejected: largest share of samples whose latents may be rejected because they are not finite or do not fit
            the dtype; above it, no snapshot is committed.
    """

    name: Name
    encoder: EncoderConfig
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    audio_field: str | None = Field(None, alias="field")
    frame_aligned: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    max_rejected: float = Field(0.01, ge=0, le=1)

    @field_validator("frame_aligned")
    @classmethod
    def _columns_differ(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(columns)) != len(columns):
            raise ValueError(f"a column is listed twice: {', '.join(columns)}")
        return columns


class ColumnSetConfig(Section):
    """One set of columns, from a table that is joined to the samples.

    Attributes:
        name: name of the folder and of the assets.
        table: CSV, TSV, JSON Lines or Parquet file.
        on: the column of the table that is joined: keys of samples, or paths of recordings. None takes `key` if the
            table has it, otherwise `path`.
    """

    name: Name
    table: Uri
    on: Literal["key", "path"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _on_is_a_key(cls, content: object) -> object:
        """YAML 1.1, which loaders of other projects follow, reads the key `on` as true."""
        if isinstance(content, Mapping) and True in content:
            return {("on" if key is True else key): value for key, value in content.items()}
        return content

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name == METADATA_SET:
            raise ValueError("this set holds source.metadata and the facts of the catalog; choose another name")
        return name


class BalanceConfig(Section):
    """How groups of samples are balanced in a view.

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
    """

    where: str | None = Field(None, min_length=1)
    balance: BalanceConfig | None = None

    @model_validator(mode="after")
    def _chooses(self) -> Self:
        if self.where is None and self.balance is None:
            raise ValueError("a view needs `where` or `balance`, or both")
        return self


_Named = ColumnSetConfig | LatentsConfig


class LoaderConfig(Section):
    """The loader of the smoke test. These settings have no effect on other workers.

    Attributes:
        num_workers: worker processes; 0 reads in the main process.
        shuffle_buffer: samples in the shuffle buffer.
        prefetch_factor: batches that each worker prepares ahead.
        batch_size: samples per batch.
        reread_every: a smoke test reads all new shards and a part of the others; after this many tests, all have been
            read.
    """

    num_workers: int = Field(2, ge=0)
    shuffle_buffer: int = Field(100, ge=0)
    prefetch_factor: int = Field(2, ge=1)
    batch_size: int = Field(8, ge=1)
    reread_every: int = Field(10, ge=1)


class ScheduleConfig(Section):
    """A schedule.

    Attributes:
        cron: minute, hour, day of month, month, day of week.
        enabled: whether the schedule is on at first; it can be switched in Dagster's UI.
    """

    cron: Cron
    enabled: bool = True


class RefreshConfig(ScheduleConfig):
    """Schedule of the scan of the whole source."""

    cron: Cron = "0 3 * * *"


class VerifyConfig(ScheduleConfig):
    """Schedule of `verify`, which reads every byte of the newest snapshot, or of a part of its shards.

    Attributes:
        fraction: the share of the shards that each run verifies, such as `1/7`; the next run takes the next part.
    """

    cron: Cron = "0 4 * * 0"
    fraction: Annotated[float | str, AfterValidator(_checked_share)] = 1.0


class GcConfig(ScheduleConfig):
    """Schedule of garbage collection; `keep` is the number of snapshots to keep."""

    cron: Cron = "0 6 * * 0"
    enabled: bool = False
    keep: int = Field(10, ge=1)


class HistoryConfig(ScheduleConfig):
    """Schedule of the removal of old runs from Dagster's history.

    A run with the newest event of an asset is never removed.

    Attributes:
        days: runs younger than this are kept.
        keep: number of newest runs that are kept, whatever their age.
    """

    cron: Cron = "0 5 * * *"
    days: int = Field(30, ge=1)
    keep: int = Field(100, ge=0)


class SchedulesConfig(Section):
    """Actions that run at certain times; sensors react to changes.

    Attributes:
        time_zone: IANA name of the time zone of all schedules.
        refresh: scan the whole source; needed for sources that are too large for the sensor.
        verify: read every byte of the newest snapshot and compare digests.
        gc: remove files that no kept snapshot refers to; off by default.
        history: remove old runs from Dagster's history.
    """

    time_zone: str = "UTC"
    refresh: RefreshConfig = RefreshConfig()
    verify: VerifyConfig = VerifyConfig()
    gc: GcConfig = GcConfig()
    history: HistoryConfig = HistoryConfig()

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in available_timezones():
            raise ValueError("expected an IANA time zone, such as UTC or Europe/Berlin")
        return name


class RunsConfig(Section):
    """How many runs the sensors start for the partitions of the data set. Dagster has limits of its own for all runs.

    Attributes:
        in_flight: the most partitions that are running or queued at a time.
        per_tick: the most partitions that one tick of the sensor starts.
    """

    in_flight: int = Field(16, ge=1)
    per_tick: int = Field(8, ge=1)


class AlertsConfig(Section):
    """Recipients of alerts. Secrets are in environment variables; the keys here name these variables.

    Attributes:
        webhook: variable with the URL of a Slack-compatible webhook; nothing is sent if it has no value.
        smtp: variable with `smtp://user:password@host:587` (`smtps://` for TLS from the start).
        smtp_user: variable with the user name, if the URL does not have it.
        smtp_password: variable with the password, not percent-encoded, if the URL does not have it.
        insecure: whether the password may be sent to a server without TLS.
        email_from: sender of the e-mails.
        email_to: recipients; without any, no e-mail is sent.
    """

    webhook: Variable = "HEADRACE_ALERTS_WEBHOOK"
    smtp: Variable = "HEADRACE_ALERTS_SMTP"
    smtp_user: Variable = "HEADRACE_ALERTS_SMTP_USER"
    smtp_password: Variable = "HEADRACE_ALERTS_SMTP_PASSWORD"  # noqa: S105 - the name of a variable
    insecure: bool = False
    email_from: str = "headrace@localhost"
    email_to: tuple[str, ...] = ()


class DriftConfig(Section):
    """How far a catalog may differ from the last snapshots before a check warns, as shares: 0.5 is 50%.

    Attributes:
        hours: growth of the total duration.
        durations: change of the 10th, 50th or 90th percentile of the recordings' durations.
        rejected: growth of the share of rejected files.
    """

    hours: float = Field(0.5, ge=0)
    durations: float = Field(0.5, ge=0)
    rejected: float = Field(0.05, ge=0)


class OutputConfig(Section):
    """The output of the data set: a folder or a prefix of an object store."""

    uri: Uri


class DatasetConfig(Section):
    """The settings of one data set. Dagster shows `owners`, people and teams, beside each asset."""

    name: Name
    owners: tuple[Owner, ...] = ("team:audio-data",)
    source: SourceConfig
    exclude: Exclude = ()
    audio: AudioConfig = AudioConfig()
    splits: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field({"train": 0.9, "validation": 0.05, "test": 0.05})
    group_by: str | None = None
    shards: ShardsConfig = ShardsConfig()
    columns: tuple[ColumnSetConfig, ...] = ()
    latents: tuple[LatentsConfig, ...] = ()
    views: dict[Name, ViewConfig] = Field({})
    loader: LoaderConfig = LoaderConfig()
    schedules: SchedulesConfig = SchedulesConfig()
    runs: RunsConfig = RunsConfig()
    alerts: AlertsConfig = AlertsConfig()
    drift: DriftConfig = DriftConfig()
    output: OutputConfig

    @field_validator("splits")
    @classmethod
    def _shares_add_up(cls, splits: dict[str, float]) -> dict[str, float]:
        for name in splits:
            if not _SPLIT.match(name):
                raise ValueError(f"split name {name!r}: expected a letter, then letters, digits and hyphens")
        if not math.isclose(sum(splits.values()), 1.0, abs_tol=_SHARES_TOLERANCE):
            shares = ", ".join(f"{name}: {share:g}" for name, share in splits.items())
            raise ValueError(f"the shares must add up to 1, but they add up to {sum(splits.values()):g} ({shares})")
        return splits

    @field_validator("columns", "latents")
    @classmethod
    def _names_differ(cls, entries: tuple[_Named, ...]) -> tuple[_Named, ...]:
        names = [entry.name for entry in entries]
        if len(set(names)) != len(names):
            raise ValueError(f"each entry needs a different name; the names are {', '.join(names)}")
        return entries

    @model_validator(mode="after")
    def _aligned_columns_are_embedded(self) -> Self:
        aligned = [entry.name for entry in self.latents if entry.frame_aligned]
        if aligned and self.source.json_content == JsonContent.MINIMAL:
            raise ValueError(
                f"latents ({aligned[0]}).frame_aligned: these columns are read from the JSON of the samples, which "
                "source.json: minimal leaves without metadata; choose embed, or no frame_aligned"
            )
        return self

    @model_validator(mode="after")
    def _latents_are_of_known_fields(self) -> Self:
        known = tuple(self.source.fields) or (_ONE_FIELD,)
        for entry in self.latents:
            if entry.audio_field is not None and entry.audio_field not in known:
                raise ValueError(
                    f"latents ({entry.name}).field: no audio field {entry.audio_field!r}; the audio fields "
                    f"(source.fields) are {', '.join(known)}"
                )
        return self

    @model_validator(mode="after")
    def _partitions_have_splits(self) -> Self:
        unknown = [split for split in self.shards.partitions if split not in self.splits]
        if unknown:
            raise ValueError(
                f"shards.partitions: unknown split {', '.join(unknown)}; the splits are {', '.join(self.splits)}"
            )
        return self

    @property
    def column_sets(self) -> tuple[str, ...]:
        """Names of all sets of columns: `metadata`, then those of `columns`."""
        return (METADATA_SET, *(entry.name for entry in self.columns))

    @model_validator(mode="after")
    def _rows_are_not_cut(self) -> Self:
        if self.source.samples == SampleKind.ROWS and self.audio.segment_seconds is not None:
            raise ValueError(
                "audio.segment_seconds: with source.samples: rows, the rows say where samples begin and end; remove it"
            )
        return self

    def partitioning(self) -> Partitioning:
        """Splits, partitions and shard size as the library's own type."""
        return Partitioning(self.splits, self.shards.partitions, self.shards.samples_per_shard)


class DatasetLoader(yaml.SafeLoader):
    """Loader that rejects duplicate keys, of which PyYAML itself uses the last one. `on` and `no` are text as keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """The mapping of a node. Raises `yaml.YAMLError` for a duplicate key."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag == _YAML_BOOL:
                key.tag = _YAML_TEXT
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is given twice; merge the two", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_config(path: Path) -> DatasetConfig:
    """Load the settings of a data set from a YAML file. The data set is named after the file.

    Raises:
        ConfigError: the file cannot be read, is not valid YAML, or a key is unknown, missing or invalid. The message
            lists every error: key, what was expected, what was found.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), DatasetLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid UTF-8 (byte {error.start}); save the file as UTF-8") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {_yaml_fault(error)}") from error
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"{path}: expected at least source: {{uri: …}} and output: {{uri: …}}; found {shown(content)}"
        )
    if "name" in content:
        raise ConfigError(f"{path}: name: unknown key; the data set is named after the file, {path.stem}")
    return parse_config(content, path.stem, path)


def parse_config(content: Mapping[str, object], name: str, path: Path) -> DatasetConfig:
    """The data set that the keys of its YAML describe.

    Args:
        content: the keys and their values.
        name: of the data set.
        path: the file that has the keys, for messages.

    Raises:
        ConfigError: a key is unknown, missing or has an invalid value; the message lists every error.
    """
    filled = {key: value for key, value in content.items() if value is not None}  # an empty section means its defaults
    try:
        return DatasetConfig.model_validate({**filled, "name": name})
    except ValidationError as error:
        faults = "\n".join(f"  {error_line(fault, DatasetConfig, filled)}" for fault in error.errors())
        raise ConfigError(f"{path}: invalid settings:\n{faults}") from error


def _yaml_fault(error: yaml.YAMLError) -> str:
    """Position and cause of a YAML error."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error)
    why = str(getattr(error, "problem", None) or error)
    if r"'\t'" in why:
        why = "a tab; use spaces to indent"
    return f"line {mark.line + 1}, column {mark.column + 1}: {why}"
