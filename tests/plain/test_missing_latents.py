"""The plain pipeline and other readers on latent shards in which some samples have no latents."""

import dataclasses
import json

import numpy as np
import pytest

from headrace import webdataset_loader
from headrace.cli import main as headrace
from headrace.errors import ConfigError, SampleError
from headrace.plain.samples import decode_sample
from tests.support.streaming.corpus import WIDTH, clips, write_dataset, write_latents

CLIPS = {clip.key: clip for clip in clips(12)}
KEYS = list(CLIPS)
LOST = [KEYS[1], *KEYS[6:9]]  # one sample of one shard, and all samples of another


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rejected")
    audio = write_dataset(folder, {"train": list(CLIPS.values())}, per_shard=3)
    made = [dataclasses.replace(clip, rejection="overflow" * (clip.key in LOST)) for clip in CLIPS.values()]
    write_latents(folder, {"train": made}, audio, per_shard=3)
    return folder


@pytest.fixture
def latents(output):
    return output / "latents/crepe"


def tars(latents):
    return [str(latents / name) for name in json.loads((latents / "sizes.json").read_text())]


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_the_default_is_an_error_that_names_shard_key_reason_and_choices(latents, num_workers, batch_size):
    with pytest.raises(SampleError) as caught:
        list(webdataset_loader(latents, num_workers=num_workers, batch_size=batch_size))
    for words in ("latent_train_0000_", "(overflow)", "on_missing_latents", '"skip"', '"zeros"'):
        assert words in str(caught.value)
    assert any(repr(key) in str(caught.value) for key in LOST)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_skip_gives_a_padding_row_and_the_length_stays_exact(latents, num_workers):
    seen = []
    loader = webdataset_loader(
        latents, num_workers=num_workers, batch_size=4, on_missing_latents="skip", transform=lambda s: s | {"seen": 1}
    )
    found = list(loader)
    assert len(found) == len(loader)
    for batch in found:
        assert batch["encoder_hidden"].shape[::2] == (len(batch["keys"]), WIDTH)
        for row, key in enumerate(batch["keys"]):
            assert bool(batch["is_padding"][row]) == (key == "")
            length = int(batch["encoder_length"][row])
            assert bool(length) == bool(key)
            assert not batch["encoder_hidden"][row, length:].any()
            if key:
                seen.append(key)
                assert batch["seen"][row] == 1
                assert np.array_equal(batch["encoder_hidden"][row, :length].numpy(), CLIPS[key].hidden())
    assert sorted(seen) == sorted(set(KEYS) - set(LOST))


def test_single_samples_are_marked(latents):
    found = list(webdataset_loader(latents, batch_size=None, on_missing_latents="skip"))
    assert [sample["__key__"] for sample in found] == ["" if key in LOST else key for key in KEYS]
    assert [sample.get("is_padding", False) for sample in found] == [key in LOST for key in KEYS]


@pytest.mark.parametrize("choice", ["zeros", "drop"])
def test_other_choices_are_an_error(latents, choice):
    with pytest.raises(ConfigError, match=f"on_missing_latents is '{choice}': expected one of 'raise', 'ski"):
        webdataset_loader(latents, on_missing_latents=choice)


def test_foreign_samples_with_only_json_are_accepted(tmp_path):
    from tests.support.tars import tar_of

    (tmp_path / "a.tar").write_bytes(tar_of({"a.json": b'{"headrace": "mine"}', "b.json": b'{"refused": true}'}))
    assert [sample["metadata"] for sample in webdataset_loader(tmp_path, batch_size=None)] == [
        {"headrace": "mine"},
        {"refused": True},
    ]


@pytest.mark.usefixtures("closed_by_webdataset")
def test_vanilla_webdataset_sees_these_samples_with_only_their_json(latents):
    import webdataset as wds

    found = list(wds.WebDataset(tars(latents), shardshuffle=False))
    assert [sample["__key__"] for sample in found] == KEYS
    assert ["pth" not in sample for sample in found] == [key in LOST for key in KEYS]
    with_pth = wds.WebDataset(tars(latents), shardshuffle=False).select(lambda sample: "pth" in sample)
    assert sum(1 for _ in with_pth.decode().to_tuple("pth", "json")) == len(KEYS) - len(LOST)
    own = wds.WebDataset(tars(latents), shardshuffle=False).map(decode_sample)
    assert [sample["__key__"] for sample in own if "encoder_hidden" not in sample] == LOST


def test_wids_reads_shards_with_missing_latents(latents, tmp_path):
    import wids

    sizes = json.loads((latents / "sizes.json").read_text())
    shards = [{"url": str(latents / name), "nsamples": count} for name, count in sizes.items()]
    dataset = wids.ShardListDataset(shards, cache_dir=str(tmp_path))
    assert sorted(dataset[i]["__key__"] for i in range(len(KEYS))) == KEYS


def test_hugging_face_datasets_gives_null_for_missing_latents(latents, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    features = datasets.Features(
        {
            "pth": datasets.Value("binary"),
            "json": {"title": datasets.Value("string"), "headrace": {"num_frames": datasets.Value("int64")}},
            "__key__": datasets.Value("string"),
            "__url__": datasets.Value("string"),
        }
    )
    found = list(
        datasets.load_dataset(
            "webdataset",
            data_files={"train": tars(latents)},
            streaming=True,
            cache_dir=str(tmp_path),
            split="train",
            features=features,
        )
    )
    assert [sample["__key__"] for sample in found] == KEYS
    assert [sample["pth"] is None for sample in found] == [key in LOST for key in KEYS]


@pytest.mark.medium
def test_commands_accept_shards_with_missing_latents(output, latents, tmp_path, capsys):
    assert headrace(["export", str(latents), str(tmp_path / "plain")]) == 0
    assert headrace(["verify", str(latents)]) == 0
    assert headrace(["verify", str(tmp_path / "plain")]) == 0
    assert headrace(["inspect", str(latents)]) == 0
    assert headrace(["simulate", str(latents), "--world-size", "2", "--batch-size", "2"]) == 0
    capsys.readouterr()
    for path in (tmp_path / "plain").glob("*.idx"):
        path.unlink()
    assert headrace(["index", str(tmp_path / "plain")]) == 0
    found = list(webdataset_loader(tmp_path / "plain", batch_size=None, on_missing_latents="skip"))
    assert [sample["__key__"] for sample in found] == ["" if key in LOST else key for key in KEYS]
