"""Two fields of a batch never have one name: the second would silently replace the first."""

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips
from tests.support.streaming.stems import songs, write_stems
from tests.support.tars import tar_of

EVENTS = {"column": "events", "hz": 10}
CLASHES = {
    "raster and audio field": ({"rasters": {"mix": EVENTS}}, "'mix' is a raster and has the name of an audio field"),
    "raster and tensor": (
        {"rasters": {"snr": EVENTS}, "tensors": ["snr"]},
        "'snr' of the set.* has the name of a raster",
    ),
    "lengths and tensor": (
        {"rasters": {"grid": EVENTS}, "tensors": ["grid_length"]},
        "'grid_length' of the set 'marks' is a tensor and has the name of a raster",
    ),
    "lengths and raster": (
        {"rasters": {"grid": EVENTS, "grid_length": EVENTS}},
        "'grid_length' is a raster and has the name of a raster",
    ),
    "tensor and audio field": ({"tensors": ["mix"]}, "'mix' of the set 'marks'.* and has the name of an"),
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    write_stems(folder, songs(4))
    numbers = {name: ("float", lambda key: 1.0) for name in ("mix", "snr", "grid_length")}
    write_columns(folder, "marks", {"events": ("json", lambda key: []), **numbers})
    return folder


@pytest.mark.parametrize("case", CLASHES)
def test_fields_of_one_name_are_an_error_when_the_dataset_is_opened(output, case):
    options, message = CLASHES[case]
    with pytest.raises(ConfigError, match=message):
        StreamingDataset(remote=str(output), columns=["marks"], **options)


def test_a_raster_may_have_the_name_of_what_is_not_read(output):
    sample = StreamingDataset(remote=str(output), columns=["marks"], fields=["vocals"], rasters={"mix": EVENTS})[0]
    assert (sample["mix"] == -1).all()


def test_a_raster_may_not_have_the_name_of_a_file(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar_of({"a.flac": clips(1)[0].flac(), "a.txt": b"words"}))
    with pytest.raises(ConfigError, match=r"'txt' is a raster and has the name of the files \.txt in the shards"):
        StreamingDataset(remote=str(tmp_path), rasters={"txt": EVENTS})


def test_a_raster_is_not_padded_by_the_user(output):
    dataset = StreamingDataset(remote=str(output), columns=["marks"], rasters={"grid": EVENTS}, pad={"grid": 0})
    with pytest.raises(ConfigError, match="pad: 'grid' is no field of a transform"):
        next(iter(StreamingDataLoader(dataset)))
