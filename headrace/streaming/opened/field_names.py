"""Compares the names of fields that a stream is asked for with those of its shards, latents and columns."""

import numpy as np

from headrace.errors import ConfigError
from headrace.format.indexes.index import ShardIndex
from headrace.output_kinds import LENGTH
from headrace.streaming.samples.chosen_fields import check_fields
from headrace.streaming.samples.fields import is_taken
from headrace.streaming.shards.indexed_tars import WrittenIndexes
from headrace.streaming.shards.remote import OpenedRemote

_INDEXES_READ = 32  # to find a field that `fields` names; the first one has it, unless shards differ
_WAYS_OUT = {
    "an output": "let the encoder call its output something else and build the set again, or rename the other one",
    "a raster": "give the raster another name",
    "a tensor": "rename the column and build the set again, or read it from the metadata",
}


def check_names(opened: OpenedRemote) -> None:
    """Raise `ConfigError` if a named output, raster or tensor of a stream has the name of another field of a batch."""
    outputs = [name for field in opened.outputs_that_are_read if field.is_named for name in field.names]
    rasters = [name for raster, _ in opened.rasters for name in (raster, raster + LENGTH)]
    tensors = {tensor.spec.name: one.name for one in opened.columns for tensor in one.tensors}
    if not (outputs or rasters or tensors) or not len(opened.primary):
        return
    index, is_whole = _first_index(opened), opened.fields is None
    read = (name for name in index.audio_fields if is_whole or name in (opened.fields or ()))
    taken = dict.fromkeys(read, f"an audio field of {opened.primary.storage.uri}")
    files = {name: f"the files .{name} in the shards" for name in index.fields}
    is_own = isinstance(opened.primary.load_index, WrittenIndexes)  # then a column is the value of its member
    for kind, names, of_files in (
        ("an output", outputs, {}),
        ("a raster", rasters, files if is_whole else {}),
        ("a tensor", tensors, {} if is_own else files),
    ):
        for name in names:
            of_batches = "a field that every batch has" if is_taken(name) else None
            if owner := of_batches or taken.get(name) or of_files.get(name):
                shown = f"{name!r} of the set {tensors[name]!r}" if names is tensors else repr(name)
                raise ConfigError(f"{shown} is {kind} and has the name of {owner}: {_WAYS_OUT[kind]}")
            taken[name] = kind


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
