"""The settings of a data set, and `load_config`, which reads them from a YAML file and validates them.

Every section of the file is a class with its keys and defaults: `headrace.config.source`, `headrace.config.content` and
`headrace.config.operation` have them.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from headrace.config.content import (
    METADATA_SET,
    AudioConfig,
    ColumnSetConfig,
    FeatureConfig,
    LatentsConfig,
    ShardsConfig,
    ViewConfig,
)
from headrace.config.error_lines import error_line
from headrace.config.operation import AlertsConfig, DriftConfig, LoaderConfig, RunsConfig, SchedulesConfig
from headrace.config.partitioning import Partitioning
from headrace.config.section import Name, Owner, Section, Uri
from headrace.config.source import Exclude, JsonContent, SampleKind, SourceConfig
from headrace.errors import ConfigError
from headrace.pydantic_words import shown
from headrace.signed_urls import check_no_password

_SPLIT = re.compile(r"^[A-Za-z][A-Za-z0-9-]*$")
_SHARES_TOLERANCE = 1e-6
_MOST_NODES = 100_000
_YAML_BOOL, _YAML_TEXT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str"


_ONE_FIELD = "audio"
_Named = ColumnSetConfig | FeatureConfig | LatentsConfig


class OutputConfig(Section):
    """The output of the data set: a folder or a prefix of an object store.

    Attributes:
        uri: its place.
        takes_over: name of the data set that owned the output until now.
    """

    uri: Uri
    takes_over: Name | None = None


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
    features: tuple[FeatureConfig, ...] = ()
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

    @field_validator("columns", "features", "latents")
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

    def text_column(self, latents: LatentsConfig) -> tuple[str, str]:
        """The set of columns, empty for the JSON of samples, and the column in it with the texts of latents."""
        name, _, column = (latents.column or "").partition(".")
        return (name, column) if column and name in self.column_sets else ("", latents.column or "")

    @model_validator(mode="after")
    def _texts_are_there(self) -> Self:
        optional = {entry.name for entry in self.columns if entry.optional}
        for entry in self.latents:
            name, _ = self.text_column(entry)
            if name in optional:
                raise ValueError(f"latents ({entry.name}).column: the set {name} is optional, and latents do not wait")
            if entry.column is not None and not name and self.source.json_content == JsonContent.MINIMAL:
                raise ValueError(
                    f"latents ({entry.name}).column: texts are read from the JSON of the samples, which source.json: "
                    f"minimal leaves without metadata; write metadata.{entry.column}"
                )
        return self

    @model_validator(mode="after")
    def _latents_are_of_known_fields(self) -> Self:
        known = tuple(self.source.fields) or (_ONE_FIELD,)
        fields = {f"latents ({entry.name})": entry.audio_field for entry in self.latents}
        fields |= {f"features ({entry.name})": entry.audio_field for entry in self.features}
        for place, field in fields.items():
            if field is not None and field not in known:
                raise ValueError(
                    f"{place}.field: no audio field {field!r}; the audio fields (source.fields) are {', '.join(known)}"
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
        """Names of all sets of columns: `metadata`, then those of `columns` and of `features`."""
        return (METADATA_SET, *(entry.name for entry in self.columns), *(entry.name for entry in self.features))

    def feature(self, name: str) -> FeatureConfig | None:
        """The feature with this name, if there is one."""
        return next((entry for entry in self.features if entry.name == name), None)

    @model_validator(mode="after")
    def _sets_have_different_names(self) -> Self:
        twice = {entry.name for entry in self.columns} & {entry.name for entry in self.features}
        if twice:
            raise ValueError(f"columns and features are both named {min(twice)}; choose another name for one of them")
        return self

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
    """Loader that rejects duplicate keys, of which PyYAML itself uses the last one. `on` and `no` are text as keys.

    A file whose aliases (`*name`) stand for more than `_MOST_NODES` values is rejected: a few lines can hold
    billions.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, ARG002, FBT001, FBT002
        """The value of a node. Raises `yaml.YAMLError` if it has the form of a type, such as a date, but no value."""
        try:
            return super().construct_object(node, deep=True)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # what PyYAML leaves
            found = shown(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            why = f"{found} is not a valid {node.tag.rpartition(':')[2]}; write text in quotation marks"
            raise yaml.constructor.ConstructorError(None, None, why, node.start_mark) from error

    def get_single_node(self) -> yaml.Node | None:
        """The root of the file. Raises `yaml.YAMLError` if it holds too many values."""
        root: yaml.Node | None = super().get_single_node()
        if root is not None and _num_nodes(root, {}) > _MOST_NODES:
            raise yaml.constructor.ConstructorError(
                None, None, f"the aliases of the file stand for more than {_MOST_NODES} values", root.start_mark
            )
        return root

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:  # noqa: ANN401 - typed so in PyYAML
        r"""The text of a node, in which `"\ud83d\ude00"` is one character, as in JSON; half of one is no text.

        Raises:
            yaml.YAMLError: the text has half of a character.
        """
        text = super().construct_scalar(node)
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeError as error:
            why = f"{shown(text)} has half of a character (a surrogate); write the character itself"
            raise yaml.constructor.ConstructorError(None, None, why, node.start_mark) from error

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


def _num_nodes(node: yaml.Node, known: dict[int, int]) -> int:
    """Number of values that a node stands for, those of aliases counted each time; `known` has those of nodes by id."""
    if id(node) not in known:
        known[id(node)] = _MOST_NODES  # of a node inside itself
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for one in inner for part in (one if isinstance(one, tuple) else (one,))]
        known[id(node)] = 1 + sum(_num_nodes(part, known) for part in parts)
    return known[id(node)]


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
    except RecursionError as error:
        raise ConfigError(f"{path}: not valid YAML: lists or sections are nested too deeply") from error
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
    for where, text in _texts({key: value for key, value in filled.items() if key != "alerts"}):  # it says more itself
        try:
            check_no_password(text)
        except ConfigError as error:
            raise ConfigError(f"{path}: {where}: {error}") from None
    try:
        return DatasetConfig.model_validate({**filled, "name": name})
    except ValidationError as error:
        faults = "\n".join(f"  {error_line(fault, DatasetConfig, filled)}" for fault in error.errors())
        raise ConfigError(f"{path}: invalid settings:\n{faults}") from error


def _texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """The place of each text, such as `columns[0].table`, and the text."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(one, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _texts(one, f"{where}[{number}]")


def _yaml_fault(error: yaml.YAMLError) -> str:
    """Position and cause of a YAML error."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error)
    why = str(getattr(error, "problem", None) or error)
    if r"'\t'" in why:
        why = "a tab; use spaces to indent"
    return f"line {mark.line + 1}, column {mark.column + 1}: {why}"
