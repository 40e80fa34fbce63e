"""Compares the names of fields that a stream is asked for with those of its shards, latents and columns."""

import numpy as np

from headrace.errors import ConfigError
from headrace.format.indexes.index import ShardIndex
from headrace.streaming.samples.chosen_fields import check_fields
from headrace.streaming.samples.fields import is_taken
from headrace.streaming.shards.indexed_tars import WrittenIndexes
from headrace.streaming.shards.remote import OpenedRemote

_INDEXES_READ = 32  # to find a field that `fields` names; the first one has it, unless shards differ


def taken_names(opened: OpenedRemote) -> dict[str, str]:
    """The fields that the batches of a stream have besides tensors of columns, and what each is, for messages."""
    names = [tensor.spec.name for one in opened.columns for tensor in one.tensors]
    if not names or not len(opened.primary):
        return {}
    is_own = isinstance(opened.primary.load_index, WrittenIndexes)  # then a column is the value of its member
    found = {} if is_own else {name: f"the files .{name} in the shards" for name in _first_index(opened).fields}
    found |= {name: "an output of latents" for field in opened.outputs_that_are_read for name in field.names}
    return found | {name: "a field that every batch has" for name in names if is_taken(name)}


def check_outputs(opened: OpenedRemote) -> None:
    """Raise `ConfigError` if a named output of latents has the name of another field of a batch."""
    names = [name for field in opened.outputs_that_are_read if field.is_named for name in field.names]
    if not names or not len(opened.primary):
        return
    index = _first_index(opened)
    taken = dict.fromkeys(index.audio_fields, f"an audio field of {opened.primary.storage.uri}")
    taken |= {name: "a raster" for name, _ in opened.rasters}
    taken |= {name: "another output" for name in names if names.count(name) > 1}
    if (clash := next((name for name in names if name in taken), None)) is not None:
        raise ConfigError(
            f"latents: {clash!r} is an output and has the name of {taken[clash]}: let the encoder call its output "
            "something else and build the set again, or give the other one another name"
        )


def _first_index(opened: OpenedRemote) -> ShardIndex:
    """The index of a stream's first shard."""
    return opened.primary.load_index(opened.primary.storage, opened.primary.shards.name(0))


def check_wanted_fields(opened: OpenedRemote) -> None:
    """Raise `ConfigError` if a stream has no field of a wanted name."""
    shards, storage = opened.primary.shards, opened.primary.storage
    most = np.linspace(0, len(opened.primary) - 1, min(len(opened.primary), _INDEXES_READ)).astype(int).tolist()
    indexes = (opened.primary.load_index(storage, shards.name(shard)) for shard in most)
    own, *joined = ([field.values for field in fields] for fields in opened.outputs)
    check_fields(opened.fields or (), indexes, [name for names in joined for name in names], own, storage.uri)
