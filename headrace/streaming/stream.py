"""One data set in a mixture, as a user names it.

Owns the public `Stream`: where it is and how much of it an epoch takes, and the names by which saved states know
streams. Opening one is `remote`'s.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.streaming.checks import convert, each, instance, number, optional, path, text, whole

ONLY_STREAM = "data"
"""Name of the stream of `remote=…`: a copy elsewhere must take the same state."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A data set to read, with the parameter names of MosaicML's Stream. What is None takes the dataset's value.

    Attributes:
        remote: an `audio/` or `latents/<name>/` folder or prefix, or any plain WebDataset.
        local: folder of the cache for remote shards; None takes the dataset's. Without `remote`: the data set itself,
            which is read in place, as if it were given as `remote`.
        split: None for all.
        proportion: share of the epoch, relative to the other streams' proportions; 0 switches the stream off.
        repeat: how many times its samples are taken per epoch.
        choose: how many samples are taken per epoch.
        batch_size: samples of this stream in each global batch (`batching_method="stratified"`), or in a global batch
            of its own (`"per_stream"`).
        latents: folders of latents to join to audio by key.
        snapshot: its number; None for the newest.
        name: what a saved state knows the stream by; None takes `remote` (and split).
        download_retry: see `StreamingDataset`.
        download_timeout: see `StreamingDataset`.
        validate_hash: see `StreamingDataset`.
        keep_zip: see `StreamingDataset`.
    """

    remote: str | None = None
    local: str | None = None
    split: str | None = None
    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None
    batch_size: int | None = None
    latents: Sequence[str] = ()
    snapshot: int | None = None
    name: str | None = None
    download_retry: int | None = None
    download_timeout: float | None = None
    validate_hash: bool | str | None = None
    keep_zip: bool | None = None

    def __post_init__(self) -> None:
        """Refuse what is no such argument; what the dataset has as well is checked with it."""
        convert(self, optional(path), "remote", "local")
        convert(self, optional(text), "split", "name")
        convert(self, optional(whole), "snapshot")
        convert(self, _folders, "latents")
        convert_weights(self)
        if self.remote is None and self.local is None:
            raise ConfigError("Stream() names no data set: pass remote=…, or local=… alone for a folder that is here")

    @property
    def place(self) -> str:
        """What is read: `remote`, or else `local`, in place."""
        found = self.remote or self.local
        assert found is not None
        return found

    @property
    def cache(self) -> str | None:
        """Folder of the cache; None takes the dataset's."""
        return self.local if self.remote is not None else None


def convert_weights(stream: object) -> None:
    """Check how much of a stream an epoch takes: the fields that `Stream` and `mixing.StreamSpec` share.

    Raises:
        ConfigError: one is no number, or out of range.
    """
    convert(stream, optional(number), "proportion", least=0)
    convert(stream, optional(number), "repeat", least=0)
    convert(stream, optional(whole), "choose", least=0)
    convert(stream, optional(whole), "batch_size", least=1)


def chosen(streams: Sequence[Stream] | Stream | None, single: Stream | None) -> tuple[Sequence[Stream], Sequence[str]]:
    """What a user gave, streams or one alone; and what saved states know them by.

    Raises:
        ConfigError: both or neither, or streams that are none.
    """
    if (streams is None) == (single is None):
        raise ConfigError(
            "pass remote=…, or streams=[Stream(remote=…), …], or local=… alone for a folder that is here: one of them"
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


def _folders(name: str, value: object) -> tuple[str, ...]:
    example = f", such as [{os.fspath(value)!r}]" if isinstance(value, str | os.PathLike) else ""
    return each(name, value, path, f"a list of folders{example}")


def _names(streams: Sequence[Stream]) -> list[str]:
    """`demo/audio#train`, so that a copy elsewhere goes on; all of `remote` where that is not enough."""
    remotes = [stream.place.rstrip("/") for stream in streams]
    marks = [f"#{stream.split}" if stream.split else "" for stream in streams]
    short = ["/".join(remote.split("/")[-2:]) + mark for remote, mark in zip(remotes, marks, strict=True)]
    full = [remote + mark for remote, mark in zip(remotes, marks, strict=True)]
    found = short if len(set(short)) == len(short) else full
    return [stream.name or name for stream, name in zip(streams, found, strict=True)]
