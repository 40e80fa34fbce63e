"""Exports with a set of named outputs beside the audio: our loaders read them as they read the set itself."""

import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import ConfigError, SampleError
from tests.support.output_builds import LENGTHS, Built, write_audio

FORMS = ["webdataset", "energon", "dali", "croissant"]
LOADERS = {
    "threads": lambda remote, **options: StreamingDataLoader(StreamingDataset(remote=remote, **options)),
    "sample by sample": lambda remote, **options: StreamingDataLoader(
        StreamingDataset(remote=remote, transform=dict, **options)
    ),
    "basic": lambda remote, **options: StreamingDataLoader(StreamingDataset(remote=remote, decode="basic", **options)),
    "webdataset": lambda remote, **options: webdataset_loader(remote, num_workers=0, **options),
}
OUTPUTS = ("codes", "codes_length", "embedding", "levels", "levels_length")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    write_audio(folder)
    Built(folder).commit()
    Built(folder, "spoilt", spoilt=LENGTHS[3]).commit()
    return folder


@pytest.fixture(scope="module")
def exported(root, tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("exports"), {}

    def export(to, name):
        if (to, name) not in made:
            target = str(folder / f"{to}-{name}")
            assert main(["export", str(root), target, "--to", to, "--latents", name]) == 0
            made[to, name] = target
        return made[to, name]

    return export


def rows_of(loader):
    """Key → the outputs of a row, which is as long as the longest of its batch, without padding rows."""
    return {
        key: {name: batch[name][row] for name in OUTPUTS}
        for batch in loader
        for row, key in enumerate(batch["keys"])
        if not batch["is_padding"][row]
    }


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("to", FORMS)
def test_an_export_is_read_as_the_set_itself(root, exported, to, loader):
    found = rows_of(LOADERS[loader](exported(to, "mel"), batch_size=4))
    wanted = rows_of(LOADERS["threads"](str(root / "latents/mel"), batch_size=4))
    assert found.keys() == wanted.keys()
    for key, outputs in wanted.items():
        for name, values in outputs.items():
            assert torch.equal(found[key][name], values), (key, name)
            assert found[key][name].dtype == values.dtype


@pytest.mark.parametrize("loader", LOADERS)
def test_the_audio_is_beside_the_outputs(root, exported, loader):
    batches = list(LOADERS[loader](exported("webdataset", "mel"), batch_size=4))
    assert {"audio", "num_frames", "metadata"} <= set(batches[0])
    assert "pth" not in batches[0]
    assert sorted(batches[0]["num_frames"].tolist()) == sorted(LENGTHS)


@pytest.mark.parametrize("loader", [name for name in LOADERS if name != "webdataset"])
def test_codes_are_padded_with_the_users_number(exported, loader):
    found = rows_of(LOADERS[loader](exported("webdataset", "mel"), batch_size=4, pad={"codes": 777}))
    assert all((one["codes"][one["codes_length"] :] == 777).all() for one in found.values())


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("loader", LOADERS)
def test_a_sample_with_rejected_outputs_is_an_error_or_a_row_of_padding(exported, loader, size):
    remote = exported("webdataset", "spoilt")
    with pytest.raises(SampleError, match=r"'k3'.*rejected when they were made"):
        list(LOADERS[loader](remote, batch_size=size))
    batches = list(LOADERS[loader](remote, batch_size=size, on_missing_latents="skip"))
    assert rows_of(batches).keys() == {"k0", "k1", "k2"}
    assert sum(int(batch["is_padding"].sum()) for batch in batches) == 1


def test_latents_of_length_0_have_no_place_beside_audio(exported):
    with pytest.raises(SampleError, match=r'on_missing_latents="skip"'):
        list(LOADERS["threads"](exported("webdataset", "spoilt"), batch_size=4, on_missing_latents="zeros"))


def test_a_crop_of_audio_and_outputs_in_one_sample_is_an_error(exported):
    with pytest.raises((ConfigError, SampleError), match="no crop or window can cut both"):
        list(LOADERS["threads"](exported("webdataset", "mel"), batch_size=4, crop_frames=100))


def test_a_choice_of_outputs_in_one_sample_with_audio_is_an_error(exported):
    with pytest.raises(
        ConfigError, match=r"no field 'codes'; .*; named outputs .*, as of an export, come only without"
    ):
        StreamingDataset(remote=exported("webdataset", "mel"), fields=["codes"], batch_size=4)


def test_the_audio_of_rejected_outputs_keeps_its_length(exported):
    dataset = StreamingDataset(
        remote=exported("webdataset", "spoilt"), fields=["audio"], window_seconds=0.02, batch_size=1
    )
    assert len(dataset) == sum(-(-length // 320) for length in LENGTHS)
