"""Defines `Stream`, one data set of a mixture: where it is, and how much of it an epoch takes.

It also decides the names of streams in saved states. Streams are opened by `shards.remote`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.arguments import convert, each, instance, number, optional, path, text, whole
from headrace.errors import ConfigError
from headrace.format.tars.name_lists import absolute, name_of_tars, shown
from headrace.signed_urls import is_signed, unsigned
from headrace.streaming.selection import Selection, convert_selection

ONLY_STREAM = "data"
"""Name of the stream of `remote=…`; the same for a copy at another place, so that states fit both."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A data set to read, with the parameter names of MosaicML's Stream. None takes the value of the dataset.

    Attributes:
        remote: an `audio/` or `latents/<name>/` folder or prefix, the root of an output (which means its `audio/`), or
            any plain WebDataset: folder, `sizes.json`, glob, brace pattern, text list or the shard list of wids; or a
            list of paths or URLs of tars.
        local: folder of the cache for remote shards; None takes the one of the dataset. Without `remote`: the data set
            itself, which is read in place, as if it were given as `remote`.
        split: None for all.
        proportion: share of the epoch, relative to the proportions of the other streams; 0 switches the stream off.
        repeat: how many times its samples are taken per epoch.
        choose: how many samples are taken per epoch.
        batch_size: samples of this stream in each global batch (`batching_method="stratified"`), or in its own
            global batches (`"per_stream"`).
        latents: sets of latents to join to audio by key; see `StreamingDataset`.
        snapshot: number of the snapshot; None for the newest.
        view: name of a view of the output that `remote` belongs to, or the folder of a view.
        where: a condition on the columns of that output; see `StreamingDataset`.
        key_at: see `StreamingDataset`.
        columns: sets of columns to join to the samples; see `StreamingDataset`.
        fields: fields of the samples that are read; see `StreamingDataset`.
        window_seconds: see `StreamingDataset`.
        window_hop_seconds: see `StreamingDataset`.
        last_window: see `StreamingDataset`.
        rasters: see `StreamingDataset`; the same fields in all streams, perhaps of other columns.
        name: name of the stream in saved states; None takes `remote` (and split, and the view where streams of one data
            set differ in it).
        download_retry: see `StreamingDataset`.
        download_timeout: see `StreamingDataset`.
        validate_hash: see `StreamingDataset`.
        keep_zip: see `StreamingDataset`.
    """

    remote: str | Sequence[str] | None = None
    local: str | None = None
    split: str | None = None
    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None
    batch_size: int | None = None
    latents: Sequence[str] = ()
    snapshot: int | None = None
    view: str | None = None
    where: str | None = None
    key_at: str | None = None
    columns: Sequence[str] | None = None
    fields: Sequence[str] | None = None
    name: str | None = None
    download_retry: int | None = None
    download_timeout: float | None = None
    validate_hash: bool | str | None = None
    keep_zip: bool | None = None
    window_seconds: float | None = None
    window_hop_seconds: float | None = None
    last_window: str | None = None
    rasters: Mapping[str, Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        """Check the arguments; those that the dataset also has are checked by the dataset. Raises `ConfigError`."""
        convert(self, optional(name_of_tars), "remote")
        convert(self, optional(path), "local")
        convert(self, optional(text), "name")
        convert_selection(self)
        convert_weights(self)
        if self.remote is None and self.local is None:
            raise ConfigError("Stream() names no data set: pass remote=…, or local=… alone for a local folder")

    @property
    def place(self) -> str:
        """The data set to read: `remote`, or else `local`."""
        found = self.remote or self.local
        assert isinstance(found, str)  # converted
        return found

    @property
    def public_place(self) -> str | None:
        """`place` from any working folder; None for a list of tars, and for a URL with a signature."""
        place = absolute(self.place)
        return None if is_signed(place) or "\n" in place else place

    @property
    def cache(self) -> str | None:
        """Folder of the cache; None takes the one of the dataset."""
        return self.local if self.remote is not None else None

    def selection(self, of_dataset: Selection) -> Selection:
        """The selection of this stream: its own arguments, or else those of the dataset."""
        choice = of_dataset if self.view is None and self.where is None else self
        own = {"latents": self.latents or None} | {name: getattr(self, name) for name in _ALONE}
        given = {name: value for name, value in own.items() if value is not None}
        return replace(of_dataset, view=choice.view, where=choice.where, **given)


_ALONE = (
    *("split", "snapshot", "key_at", "columns", "fields"),
    *("window_seconds", "window_hop_seconds", "last_window", "rasters"),
)


def convert_weights(stream: object) -> None:
    """Check the weights of a stream: the fields that `Stream` and `mixing.StreamSpec` share.

    Raises:
        ConfigError: one is not a number, or out of range.
    """
    convert(stream, optional(number), "proportion", least=0)
    convert(stream, optional(number), "repeat", least=0)
    convert(stream, optional(whole), "choose", least=0)
    convert(stream, optional(whole), "batch_size", least=1)


def chosen(streams: Sequence[Stream] | Stream | None, single: Stream | None) -> tuple[Sequence[Stream], Sequence[str]]:
    """The streams that the user gave, as a list or as `remote`, and their names in saved states.

    Raises:
        ConfigError: both or neither are given, `streams` is empty, or an item of it is not a `Stream`.
    """
    if streams is not None and single is not None:
        raise ConfigError(f"streams and remote={shown(unsigned(single.place))!r} are both given: pass one of them")
    if streams is None and single is None:
        raise ConfigError(
            "no data set is named: pass remote=…, or streams=[Stream(remote=…), …], or local=… alone for a local folder"
        )
    if single is not None:
        return (single,), (ONLY_STREAM,)
    given = (
        (streams,) if isinstance(streams, Stream) else each("streams", streams, _stream, "a list of Stream(remote=…)")
    )
    if not given:
        raise ConfigError("streams is empty: name at least one Stream(remote=…)")
    return given, _names(given)


def _stream(name: str, value: object) -> Stream:
    return instance(name, value, Stream, "Stream(remote=…)")


def _choice_mark(stream: Stream) -> str:
    """The view or condition of a stream, for its name."""
    view = None if stream.view is None else stream.view.rstrip("/").rpartition("/")[2]
    return "".join(f" {word} {value}" for word, value in (("view", view), ("where", stream.where)) if value is not None)


def _names(streams: Sequence[Stream]) -> list[str]:
    """Names like `demo/audio#train`, which copies at other places share; the whole `remote` if these are not unique.

    Streams of one data set with different views have these in their names, too.
    """
    remotes = [shown(unsigned(stream.place)).rstrip("/") for stream in streams]
    marks = [f"#{stream.split}" if stream.split else "" for stream in streams]
    short = ["/".join(remote.split("/")[-2:]) + mark for remote, mark in zip(remotes, marks, strict=True)]
    full = [remote + mark for remote, mark in zip(remotes, marks, strict=True)]
    chosen = [name + _choice_mark(stream) for name, stream in zip(full, streams, strict=True)]
    found = next((names for names in (short, full) if len(set(names)) == len(names)), chosen)
    return [stream.name or name for stream, name in zip(streams, found, strict=True)]
