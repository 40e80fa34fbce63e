"""Our shards are read unchanged by common readers: webdataset, wids, Hugging Face datasets."""

import json
import subprocess
import sys

import pytest

from tests.support.streaming.corpus import clips, write_dataset

pytestmark = pytest.mark.medium

CORPUS = clips(23)
KEYS = sorted(clip.key for clip in CORPUS)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """An output with 23 training samples in 5 shards and 6 test samples."""
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": CORPUS, "test": clips(6, first=200)})
    return folder


def files(output, split):
    names = json.loads((output / "audio" / "sizes.json").read_text())
    return [str(output / "audio" / name) for name in names if name.startswith(split)]


@pytest.mark.usefixtures("closed_by_webdataset")
def test_vanilla_webdataset_reads_our_shards(output, tmp_path):
    import webdataset as wds

    found = list(wds.WebDataset(files(output, "train"), shardshuffle=False).decode())
    assert sorted(sample["__key__"] for sample in found) == KEYS
    assert all(sample["json"]["title"] for sample in found)
    plain = tmp_path / "plain"
    export = [sys.executable, "-m", "headrace.cli", "export", str(output), str(plain)]
    subprocess.run(export, check=True, capture_output=True)
    last = len(list(plain.glob("train_*.tar"))) - 1
    braces = f"{plain}/train_{{000000..{last:06d}}}.tar"
    assert sorted(s["__key__"] for s in wds.WebDataset(braces, shardshuffle=False)) == KEYS


def test_wids_reads_our_shards(output, tmp_path):
    import wids

    shards = [
        {"url": path, "nsamples": count}
        for path, (name, count) in zip(
            files(output, "train"),
            (pair for pair in json.loads((output / "audio" / "sizes.json").read_text()).items() if "train" in pair[0]),
            strict=True,
        )
    ]
    dataset = wids.ShardListDataset(shards, cache_dir=str(tmp_path))
    assert len(dataset) == 23
    assert sorted(dataset[i]["__key__"] for i in range(23)) == KEYS
    assert dataset[7][".json"]["title"].startswith("Clip")


def test_hugging_face_datasets_reads_our_shards(output, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    paths = {"train": files(output, "train"), "test": files(output, "test")}
    streamed = datasets.load_dataset(
        "webdataset", data_files=paths, streaming=True, cache_dir=str(tmp_path), split="train"
    )
    # Decoding audio needs torchcodec; this test needs only the bytes.
    features = streamed.features.copy()
    features["flac"] = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    found = list(streamed.cast(features))
    assert sorted(sample["__key__"] for sample in found) == KEYS
    assert all(sample["flac"]["bytes"][:4] == b"fLaC" for sample in found)
    assert all(sample["json"]["title"].startswith("Clip") for sample in found)
