"""One data set's YAML file as typed settings: where text enters, it is checked once and then trusted.

Owns the keys, their defaults and the messages for wrong ones. It reads one file and does nothing else.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from headrace.audio import AudioFormat
from headrace.config_faults import described
from headrace.cron import checked_cron
from headrace.encoders import KINDS
from headrace.errors import ConfigError
from headrace.plan import Layout

_NAME = r"^[A-Za-z][A-Za-z0-9_]*$"
Cron = Annotated[str, AfterValidator(checked_cron)]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELL_NAME = re.compile(r"\$(\{|[A-Za-z_])")
_SPLIT = re.compile(r"^[A-Za-z][A-Za-z0-9-]*$")
_SHARES_TOLERANCE = 1e-6


def _checked_uri(uri: str) -> str:
    if _SHELL_NAME.search(uri):
        raise ValueError("variables are not filled in here; write the path itself, or ~ for your home folder")
    if uri.startswith("file://~"):
        raise ValueError("~ is for paths; write it without file://")
    try:
        urlsplit(uri)
    except ValueError as error:
        raise ValueError(f"this is neither a path nor a URL ({error})") from error
    return uri


def _checked_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            "expected the name of an environment variable, such as HEADRACE_ALERTS_WEBHOOK; an address is a secret and "
            "belongs in that variable, not here"
        )
    return name


Uri = Annotated[str, Field(min_length=1), AfterValidator(_checked_uri)]
Variable = Annotated[str, AfterValidator(_checked_variable)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError("true and false are no values of this key")
        return value


class SourceConfig(_Section):
    """Where the recordings are.

    Attributes:
        uri: folder of recordings.
        metadata: CSV, JSONL or Parquet with a column `path`, joined to the recordings.
        settle_seconds: a file changed less than this long ago is left for the next scan.
        min_seconds: shorter recordings are refused.
        key_column: metadata column whose values become sample keys; null derives every key from the path.
        validation: `module:object`, a pandera (polars) schema for the metadata columns.
    """

    uri: Uri
    metadata: Uri | None = None
    settle_seconds: float = Field(5.0, ge=0, allow_inf_nan=False)
    min_seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    key_column: str | None = Field(None, min_length=1)
    validation: str | None = Field(None, pattern=r"^[\w.]+:\w+$", alias="schema")


class AudioConfig(_Section):
    """The audio in the shards; null keeps the source's."""

    sample_rate: int | None = Field(None, ge=1, le=655_350)
    num_channels: int | None = Field(None, ge=1, le=8)
    bits_per_sample: Literal[16, 24] | None = None
    compression_level: int = Field(5, ge=0, le=8)
    segment_seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    last_segment: Literal["keep", "drop"] = "keep"

    def format(self) -> AudioFormat:
        """The same as the library's own type."""
        return AudioFormat(
            sample_rate_hz=self.sample_rate,
            num_channels=self.num_channels,
            bits_per_sample=self.bits_per_sample,
            compression_level=self.compression_level,
            segment_seconds=self.segment_seconds,
            last_segment=self.last_segment,
        )


class ShardsConfig(_Section):
    """How many samples a shard holds and how many buckets a split has.

    Attributes:
        samples_per_shard: samples in a full shard.
        partitions: split → its buckets; 1 where a split is not named.
        reshuffle: raise it to lay out all shards anew, as from an empty output.
    """

    samples_per_shard: int = Field(50, ge=1)
    reshuffle: int = Field(0, ge=0)
    partitions: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)


class EncoderConfig(BaseModel):
    """Which encoder, and its own settings (checked by the encoder)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"encoder kind {kind!r} is not known; there are {', '.join(sorted(KINDS))}")
        return kind

    @property
    def settings(self) -> dict[str, Any]:
        """All keys but `kind`."""
        return dict(self.model_extra or {})


class LatentsConfig(_Section):
    """One set of latents.

    Attributes:
        name: folder and asset name.
        encoder: which encoder computes them.
        dtype: how they are stored.
        frame_aligned: metadata columns whose lists have one entry per latent frame; a check of each proves it.
    """

    name: str = Field(pattern=_NAME)
    encoder: EncoderConfig
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    frame_aligned: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @field_validator("frame_aligned")
    @classmethod
    def _columns_differ(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(columns)) != len(columns):
            raise ValueError("a column stands twice")
        return columns


class LoaderConfig(_Section):
    """The smoke test's loader; apart from every other worker count."""

    num_workers: int = Field(2, ge=0)
    shuffle_buffer: int = Field(100, ge=0)
    prefetch_factor: int = Field(2, ge=1)
    batch_size: int = Field(8, ge=1)


class ScheduleConfig(_Section):
    """When something happens by itself.

    Attributes:
        cron: minute, hour, day of month, month, day of week.
        enabled: whether it is on from the start; it can be switched in the UI.
    """

    cron: Cron
    enabled: bool = True


class RefreshConfig(ScheduleConfig):
    """When to scan the whole source."""

    cron: Cron = "0 3 * * *"


class VerifyConfig(ScheduleConfig):
    """When to read every byte again."""

    cron: Cron = "0 4 * * 0"


class GcConfig(ScheduleConfig):
    """When to clean up; `keep` is how many snapshots stay."""

    cron: Cron = "0 6 * * 0"
    enabled: bool = False
    keep: int = Field(10, ge=1)


class HistoryConfig(ScheduleConfig):
    """When old runs leave Dagster's history; those that hold what it knows last of an asset always stay.

    Attributes:
        days: younger runs stay.
        keep: so many of the newest runs stay, however old they are.
    """

    cron: Cron = "0 5 * * *"
    days: int = Field(30, ge=1)
    keep: int = Field(100, ge=0)


class SchedulesConfig(_Section):
    """What happens by the clock, beside what follows changes.

    Attributes:
        time_zone: an IANA name, for all of them.
        refresh: scan the whole source; the only look at sources that are too large for the sensor.
        verify: read every byte of the newest snapshot again and compare digests.
        gc: remove what no kept snapshot names; off until asked for.
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
            raise ValueError("not a time zone; expected an IANA name like UTC or Europe/Berlin")
        return name


class AlertsConfig(_Section):
    """Who hears of failures. Secrets stay in the environment: these are the names of variables, not their values.

    Attributes:
        webhook: variable that holds the URL of a Slack-compatible webhook; without a value nothing is sent.
        smtp: variable that holds `smtp://user:password@host:587` (`smtps://` for TLS from the start).
        email_from: sender.
        email_to: recipients; none sends no e-mail.
    """

    webhook: Variable = "HEADRACE_ALERTS_WEBHOOK"
    smtp: Variable = "HEADRACE_ALERTS_SMTP"
    email_from: str = "headrace@localhost"
    email_to: tuple[str, ...] = ()


class DriftConfig(_Section):
    """How far a catalog may be from the last snapshots before a check warns; shares, 0.5 is a half.

    Attributes:
        hours: change of the length of everything.
        durations: change of the 10, 50 or 90% point of the recordings' lengths.
        rejected: growth of the share of files that are refused.
    """

    hours: float = Field(0.5, ge=0)
    durations: float = Field(0.5, ge=0)
    rejected: float = Field(0.05, ge=0)


class OutputConfig(_Section):
    """Where the data set goes: a folder or an object-store prefix."""

    uri: Uri


class DatasetConfig(_Section):
    """One data set, as its YAML file says."""

    name: str = Field(pattern=_NAME)
    source: SourceConfig
    audio: AudioConfig = AudioConfig()
    splits: dict[str, Annotated[float, Field(ge=0, le=1)]] = {"train": 0.9, "validation": 0.05, "test": 0.05}
    group_by: str | None = None
    shards: ShardsConfig = ShardsConfig()
    latents: tuple[LatentsConfig, ...] = ()
    loader: LoaderConfig = LoaderConfig()
    schedules: SchedulesConfig = SchedulesConfig()
    alerts: AlertsConfig = AlertsConfig()
    drift: DriftConfig = DriftConfig()
    output: OutputConfig

    @field_validator("splits")
    @classmethod
    def _shares_add_up(cls, splits: dict[str, float]) -> dict[str, float]:
        for name in splits:
            if not _SPLIT.match(name):
                raise ValueError(f"split name {name!r}: use a letter, then letters, digits and hyphens")
        if not math.isclose(sum(splits.values()), 1.0, abs_tol=_SHARES_TOLERANCE):
            raise ValueError(f"shares must add up to 1, they add up to {sum(splits.values()):g}")
        return splits

    @field_validator("latents")
    @classmethod
    def _names_differ(cls, latents: tuple[LatentsConfig, ...]) -> tuple[LatentsConfig, ...]:
        names = [entry.name for entry in latents]
        if len(set(names)) != len(names):
            raise ValueError(f"every entry needs a name of its own, found {names}")
        return latents

    @model_validator(mode="after")
    def _partitions_have_splits(self) -> Self:
        unknown = [split for split in self.shards.partitions if split not in self.splits]
        if unknown:
            raise ValueError(f"shards.partitions names {unknown}, but the splits are {list(self.splits)}")
        return self

    def layout(self) -> Layout:
        """The same as the library's own type."""
        return Layout(self.splits, self.shards.partitions, self.shards.samples_per_shard)


class _Loader(yaml.SafeLoader):
    """YAML where a key may stand once: PyYAML lets the last one win in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """The mapping of a node. Raises `yaml.YAMLError` for a key that stands twice."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def load_config(path: Path) -> DatasetConfig:
    """The data set that a YAML file describes; its name is the file's.

    Raises:
        ConfigError: unreadable, not YAML, or a key is unknown, missing or wrong; the message lists every fault by file,
            key, what was expected and what was found.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}: expected keys like source: and output:, found {type(content).__name__}")
    if "name" in content:
        raise ConfigError(f"{path}: name: unknown key; a data set has its file's name, {path.stem}")
    try:
        filled = {key: value for key, value in content.items() if value is not None}  # an empty section is its defaults
        return DatasetConfig.model_validate({**filled, "name": path.stem})
    except ValidationError as error:
        faults = "\n".join(f"  {described(fault, DatasetConfig)}" for fault in error.errors())
        raise ConfigError(f"{path}: cannot be used:\n{faults}") from error
