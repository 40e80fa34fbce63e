"""One data set in a mixture, as a user names it.

Owns the public `Stream`: where it is and how much of it an epoch takes, and the names by which saved states know
streams. Opening one is `remote`'s.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import ConfigError

ONLY_STREAM = "data"
"""Name of the stream of `remote=…`: a copy elsewhere must take the same state."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A data set to read, with the parameter names of MosaicML's Stream. What is None takes the dataset's value.

    Attributes:
        remote: an `audio/` or `latents/<name>/` folder or prefix, or any plain WebDataset.
        local: folder of the cache for remote shards; None takes one below the temporary folder.
        split: None for all.
        proportion: share of the epoch, relative to the other streams' proportions.
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

    remote: str
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
        """Refuse one folder where a list of them belongs: its letters would be taken for folders."""
        if isinstance(self.latents, str | os.PathLike):
            folder = os.fspath(self.latents)
            raise ConfigError(f"latents is {folder!r}: expected a list of folders, such as [{folder!r}]")


def chosen(streams: Sequence[Stream] | None, single: Stream | None) -> tuple[Sequence[Stream], Sequence[str]]:
    """What a user gave, streams or one alone; and what saved states know them by.

    Raises:
        ConfigError: both or neither.
    """
    if (streams is None) == (single is None):
        raise ConfigError("pass remote=…, or streams=[Stream(remote=…), …]: one of the two")
    if single is not None:
        return (single,), (ONLY_STREAM,)
    assert streams is not None
    if not streams:
        raise ConfigError("streams is empty: name at least one Stream(remote=…)")
    return tuple(streams), _names(streams)


def _names(streams: Sequence[Stream]) -> list[str]:
    """`demo/audio#train`, so that a copy elsewhere goes on; all of `remote` where that is not enough."""
    remotes = [os.fspath(stream.remote).rstrip("/") for stream in streams]
    marks = [f"#{stream.split}" if stream.split else "" for stream in streams]
    short = ["/".join(remote.split("/")[-2:]) + mark for remote, mark in zip(remotes, marks, strict=True)]
    full = [remote + mark for remote, mark in zip(remotes, marks, strict=True)]
    found = short if len(set(short)) == len(short) else full
    return [stream.name or name for stream, name in zip(streams, found, strict=True)]
