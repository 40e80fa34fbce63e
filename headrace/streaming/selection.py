"""Defines `Selection`: what a user wants to read of a data set, as one value that is carried whole.

`StreamingDataset` and `Stream` make it of their arguments, and everything that opens a stream reads it. `Pins` are the
snapshots to open, where a saved state or another rank has decided.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.arguments import convert, each, number, one_of, optional, path, text, whole
from headrace.errors import ConfigError
from headrace.format.tars.member_names import KeyAt
from headrace.streaming.rasters import Raster, rasters_of
from headrace.streaming.windows import LastWindow, Windows

METADATA = "metadata"
"""The field of samples, and the set with the user's table and the facts of the catalog: it adds what the JSON lacks."""


@dataclass(frozen=True, slots=True)
class WantedTensor:
    """A column that is wanted as a tensor.

    Attributes:
        name: name of the column.
        null: the value where the column has none; None for NaN, which only floats have.
        labels: for text, the values whose places are the numbers; None for those that the build numbered.
    """

    name: str
    null: float | None = None
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of the data that is read. See `StreamingDataset` for the meaning of each attribute.

    Attributes:
        split: None for all.
        snapshot: number of the snapshot; None for the newest.
        view: name of a view of the output, or the folder of a view; None for all samples.
        where: a condition on columns; None for all samples.
        latents: names of sets of latents of the output, or their folders, to join by key.
        columns: names of sets of columns of the output, or their folders.
        tensors: columns that come as tensors.
        fields: the fields of samples that are read; None for all.
        key_at: where keys end in plain tars.
        window_seconds: length of the windows that samples are cut into; None for whole samples.
        window_hop_seconds: from the beginning of a window to that of the next one; None for the length of a window.
        last_window: `LastWindow`, or its name.
        rasters: names of fields, and the grids of events that they are.
    """

    split: str | None = None
    snapshot: int | None = None
    view: str | None = None
    where: str | None = None
    latents: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    tensors: tuple[WantedTensor, ...] = ()
    fields: tuple[str, ...] | None = None
    key_at: KeyAt = KeyAt.FIRST_DOT
    window_seconds: float | None = None
    window_hop_seconds: float | None = None
    last_window: LastWindow = LastWindow.PAD
    rasters: tuple[tuple[str, Raster], ...] = ()

    def __post_init__(self) -> None:
        """Check and convert the arguments of a user. Raises `ConfigError`."""
        convert(self, wanted_tensors, "tensors")
        convert(self, key_rule, "key_at")
        convert(self, _last_window, "last_window")
        convert_selection(self)
        if self.window_seconds is None and self.window_hop_seconds is not None:
            raise ConfigError(f"window_hop_seconds={self.window_hop_seconds:g} is given without window_seconds")

    @property
    def windows(self) -> Windows | None:
        """The windows that samples are cut into; None for whole samples."""
        if self.window_seconds is None:
            return None
        return Windows(self.window_seconds, self.window_hop_seconds or self.window_seconds, self.last_window)

    def reads(self, name: str) -> bool:
        """Whether a field of samples is wanted."""
        return self.fields is None or name in self.fields

    @property
    def keeps_json(self) -> bool:
        """Whether the samples have their JSON."""
        return self.reads(METADATA)

    @property
    def needs_snapshots(self) -> str | None:
        """The argument that needs snapshots, as the user wrote it, for messages; None if plain tars will do."""
        if self.where is not None:
            return f"where={self.where!r}"
        if self.view is not None:
            return f"view={self.view!r}"
        if self.latents:
            return f"latents={list(self.latents)}"
        if self.columns:
            return f"columns={list(self.columns)}"
        tensors = [tensor.name for tensor in self.tensors]
        return f"tensors={tensors}" if tensors else None


@dataclass(frozen=True, slots=True)
class Pins:
    """Numbers of the snapshots to open. What is not pinned is opened at its newest snapshot that fits.

    Attributes:
        own: that of the stream's own folder.
        of_latents: those of the latents, one for each; empty if they are not pinned.
        of_view: that of the view.
        of_where: those of the columns that `where` is evaluated on, by set; empty if they are not pinned.
        of_columns: those of the columns, by name of the set.
        revision: the commit of a repository of the Hub.
    """

    own: int | None = None
    of_latents: tuple[int, ...] = ()
    of_view: int | None = None
    of_where: tuple[tuple[str, int], ...] = ()
    of_columns: Mapping[str, int] = field(default_factory=dict)
    revision: str | None = None


def convert_selection(chosen: object) -> None:
    """Check and convert the arguments that `Selection` and `Stream` share.

    Raises:
        ConfigError: an argument is not allowed, or `view` and `where` are both given.
    """
    convert(chosen, optional(text), "split", "where")
    convert(chosen, optional(whole), "snapshot")
    convert(chosen, optional(path), "view")
    convert(chosen, optional(names_of_parts), "latents", "columns")
    convert(chosen, optional(_names_of_fields), "fields")
    convert(chosen, optional(key_rule), "key_at")
    convert(chosen, optional(number), "window_seconds", "window_hop_seconds")
    convert(chosen, optional(_last_window), "last_window")
    convert(chosen, optional(rasters_of), "rasters")
    view, where = (getattr(chosen, name) for name in ("view", "where"))
    if view is not None and where is not None:
        raise ConfigError(
            f"view={view!r} and where={where!r} are both given: put the condition into the view, or pass one of them"
        )


def names_of_parts(name: str, value: object) -> tuple[str, ...]:
    """Names of parts of an output, without `/`, and folders, with it. Raises `ConfigError` for other values."""
    example = os.fspath(value) if isinstance(value, str | os.PathLike) else "captions" if name == "columns" else "crepe"
    return each(name, value, _part, f"a list of names, such as [{example!r}], or of folders")


def wanted_tensors(name: str, value: object) -> tuple[WantedTensor, ...]:
    """Columns that come as tensors: a list of names, or names with the value that stands for no value, or labels.

    Raises:
        ConfigError: the value is neither, or what stands for no value is not a number.
    """
    if isinstance(value, Mapping):
        return tuple(_wanted_as(text(name, column), f"{name}[{column!r}]", one) for column, one in value.items())
    found = each(name, value, _wanted, "a list of names of columns, or {name: value where it is missing}")
    return tuple(dict.fromkeys(found))


def _names_of_fields(name: str, value: object) -> tuple[str, ...]:
    found = each(name, value, text, 'a list of names of fields, such as ["audio", "metadata"]')
    if not found:
        raise ConfigError(f"{name} is empty: name at least one field, or leave the argument out for all fields")
    return found


def _part(name: str, value: object) -> str:
    found = path(name, value)
    return f"./{found}" if isinstance(value, os.PathLike) and "/" not in found else found


def key_rule(name: str, value: object) -> KeyAt:
    """The rule for where keys end. Raises `ConfigError` for an unknown one."""
    return KeyAt(one_of(name, value, *KeyAt))


def _last_window(name: str, value: object) -> LastWindow:
    return LastWindow(one_of(name, value, *LastWindow))


def _wanted(name: str, value: object) -> WantedTensor:
    return value if isinstance(value, WantedTensor) else WantedTensor(text(name, value))


def _wanted_as(column: str, name: str, value: object) -> WantedTensor:
    if isinstance(value, bool | int | float):
        return WantedTensor(column, value)
    if not isinstance(value, list | tuple) or not value:
        raise ConfigError(
            f"{name} is {value!r}: expected a number, True or False; or, for text, the list of its labels"
        )
    labels = each(name, value, text, 'a list of labels, such as ["crow", "owl"]')
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{name}: a label is there twice")
    return WantedTensor(column, labels=labels)
