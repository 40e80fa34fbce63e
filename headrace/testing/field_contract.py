"""`FieldContract`: the tests that the outputs of each encoder have to pass on their way into a batch. Imports torch."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.encoders import Encoder
from headrace.encoders.outputs import EncoderOutput, outputs_of
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import parse_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.output_kinds import HIDDEN, LENGTH, OFFSET, OutputKind
from headrace.stores.storage import LocalStorage
from headrace.streaming.dataset import StreamingDataset
from headrace.streaming.loader import StreamingDataLoader
from headrace.testing.audio_shards import commit, write_partition

_PARTITION = "train-0000"
_SECONDS = {"a": 1.0, "b": 0.6, "c": 0.35, "d": 0.05}
_CUTS: Mapping[str, Mapping[str, float]] = {
    "windows": {"window_seconds": 0.3, "window_hop_seconds": 0.2},
    "crops": {"crop_seconds": 0.25},
}

Values = dict[str, dict[str, Tensor]]
"""Key of a sample → name of an output → its values, as stored."""


class FieldContract:
    """Tests of the fields that an encoder gives the samples of a data set.

    Each test encodes four short clips as a build does, and reads them as a training job does. Subclass it in a test
    module as `class TestMine(FieldContract)`. The subclass provides a pytest fixture `encoder`, on the CPU.
    """

    def test_each_file_loads_with_torch_and_has_what_the_encoder_declares(
        self, encoder: Encoder, tmp_path: Path
    ) -> None:
        """`torch.load(weights_only=True)` gives every output in its form, with its number of frames."""
        for values in self._stored(encoder, tmp_path).values():
            for output in outputs_of(encoder):
                found = values[output.name]
                assert found.shape[1:] == (output.width,) if output.has_time else found.shape[-1] == output.width
                assert found.dtype == getattr(torch, output.dtype or "float32")
                if output.has_time:
                    assert int(values[_length(output)]) == len(found) > 0

    def test_batches_have_the_stored_values_and_padding_behind_them(self, encoder: Encoder, tmp_path: Path) -> None:
        """Codes are padded with a number that is no code, all else with zeros."""
        stored = self._stored(encoder, tmp_path)
        for batch in _batches(tmp_path):
            for row, key in _rows(batch):
                for output in _fixed(encoder):
                    wanted, found = stored[key][output.name], batch[output.name][row]
                    assert torch.equal(found[: len(wanted)], wanted), (key, output.name)
                    assert bool((found[len(wanted) :] == _padding(output)).all())
                    assert not output.has_time or int(batch[_length(output)][row]) == len(wanted)

    def test_windows_and_crops_are_parts_of_what_is_stored(self, encoder: Encoder, tmp_path: Path) -> None:
        """They begin at the offset that the batch says; a vector stays whole."""
        stored = self._stored(encoder, tmp_path)
        timed = [output for output in _fixed(encoder) if output.hop]
        for cut in _CUTS.values() if timed else ():
            for batch in _batches(tmp_path, **cut):
                for row, key in _rows(batch):
                    for output in timed:
                        first, count = (int(batch[name][row]) for name in (_offset(output), _length(output)))
                        wanted = stored[key][output.name][first : first + count]
                        assert len(wanted) == count > 0, (key, output.name)
                        assert torch.equal(batch[output.name][row, :count], wanted), (key, output.name)

    def test_a_field_that_is_read_alone_or_by_a_transform_is_the_same(self, encoder: Encoder, tmp_path: Path) -> None:
        """Other fields, and a function of the user's, change nothing."""
        self._stored(encoder, tmp_path)
        for cut in ({}, *_CUTS.values()) if all(output.hop for output in _fixed(encoder) if output.has_time) else ({},):
            whole = list(_batches(tmp_path, **cut))
            ways: list[dict[str, Any]] = [{"transform": lambda sample: sample}]
            ways += [{"fields": [output.name]} for output in outputs_of(encoder)]
            for way in ways:
                for found, other in zip(_batches(tmp_path, **cut, **way), whole, strict=True):
                    for name in found.keys() & {output.name for output in outputs_of(encoder)}:
                        assert torch.equal(found[name], other[name]), (name, way)

    def _stored(self, encoder: Encoder, folder: Path) -> Values:
        """Encode the clips into a folder. Returns what its files have."""
        audio, latents = LocalStorage(folder / "audio"), LocalStorage(folder / "latents/mine")
        shape = () if encoder.num_channels == 1 else (encoder.num_channels,)
        clips = {
            key: 0.1 * np.random.default_rng(number).standard_normal((round(seconds * encoder.sample_rate_hz), *shape))
            for number, (key, seconds) in enumerate(_SECONDS.items())
        }
        commit(audio, write_partition(audio, [clips], partition=_PARTITION, sample_rate_hz=encoder.sample_rate_hz))
        settings = LatentSettings(encoder.fingerprint, "float32")
        build_latent_partition(_PARTITION, settings, lambda: [encoder], audio, latents)
        commit_latents(audio, latents, settings)
        return dict(_files(latents))


def _files(latents: LocalStorage) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Key and content of each `.pth`."""
    table = read_table(latents, read_snapshot(latents).snapshot)
    for name in map(table.name, range(len(table))):
        blob, index = latents.read(name), parse_index(latents.read(index_name(name)), name)
        for row, key in enumerate(index.keys()):
            span = index.range_of(row, "pth")
            assert span is not None, key
            yield key, torch.load(io.BytesIO(blob[slice(*span)]), weights_only=True)


def _batches(folder: Path, **options: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - of StreamingDataset
    dataset = StreamingDataset(remote=str(folder / "latents/mine"), batch_size=2, **options)
    return iter(StreamingDataLoader(dataset, num_workers=0))


def _rows(batch: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """The rows of a batch that are samples, with their keys."""
    return ((row, key) for row, key in enumerate(batch["keys"]) if not batch["is_padding"][row])


def _fixed(encoder: Encoder) -> list[EncoderOutput]:
    """The outputs of which a sample has one, and not several to draw from."""
    return [output for output in outputs_of(encoder) if not output.is_choice]


def _length(output: EncoderOutput) -> str:
    return "encoder_length" if output.name == HIDDEN else output.name + LENGTH


def _offset(output: EncoderOutput) -> str:
    return "encoder_offset" if output.name == HIDDEN else output.name + OFFSET


def _padding(output: EncoderOutput) -> int:
    if output.kind is not OutputKind.CODES:
        return 0
    return 2**16 - 1 if output.dtype == "uint16" else -1
