"""Samples of one shard: of rows, of keys, and with each output of their latents."""

import pytest

from headrace import StreamingDataset
from headrace.streaming.samples.shard_rows import joined_samples, opened_samples, with_outputs
from tests.support.output_builds import Built, write_audio


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A reader of the codes, vectors and frames of two samples."""
    folder = tmp_path_factory.mktemp("outputs")
    write_audio(folder)
    Built(folder).commit()
    return StreamingDataset(remote=str(folder / "latents/mel"), batch_size=2).reading.readers[0]


def test_a_sample_has_the_place_and_rate_of_the_output_that_is_asked_for(reader):
    access = reader.primary
    index = access.index(0)
    (first,) = opened_samples(access, 0, [1], patient=False)
    assert [field.output for field in reader.outputs[0]] == [output.name for output in index.outputs]
    for field in reader.outputs[0]:
        (sample,) = with_outputs([first], field)
        output = index.outputs[field.number]
        assert sample.tensor == index.row(1).tensors[field.number]
        assert (sample.latent_rate_hz, sample.has_time_axis) == (output.frame_rate_hz, output.has_time)
        assert (sample.key, sample.tensor_dtype) == (first.key, output.dtype)


def test_a_key_that_a_shard_lacks_is_none(reader):
    keys = list(reader.primary.index(0).keys())
    found = joined_samples(reader.primary, 0, [keys[1], "other", keys[0]], patient=False)
    assert [one and one.key for one in found] == [keys[1], None, keys[0]]
    assert with_outputs(found, reader.outputs[0][1])[1] is None
