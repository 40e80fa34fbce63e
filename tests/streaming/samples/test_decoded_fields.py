"""Files of other people's samples, decoded as WebDataset's own `.decode("rgb8")` does, but nothing is unpickled."""

import io
import json
import pickle

import numpy as np
import pytest
import torch
import webdataset

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError, SampleError
from tests.support.streaming.corpus import clips
from tests.support.tars import tar_of

Image = pytest.importorskip("PIL.Image")


def image(kind, number):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(number).integers(0, 255, (4, 5, 3), np.uint8)).save(file, kind)
    return file.getvalue()


def saved(save, value):
    file = io.BytesIO()
    save(file, value)
    return file.getvalue()


def members(number):
    """The files of one sample, by extension."""
    return {
        "flac": clips(4)[number].flac(),
        "json": json.dumps({"number": number}).encode(),
        "txt": f"number {number} ä".encode(),
        "cls": f"{number}\n".encode(),
        "meta.jsn": json.dumps([number, {"a": None}]).encode(),
        "npy": saved(np.save, np.full((2, 3), number, np.float32)),
        "npz": saved(lambda file, value: np.savez(file, a=value, b=value + 1), np.arange(number)),
        "state.pth": saved(lambda file, value: torch.save(value, file), {"x": torch.arange(number)}),
        "png": image("PNG", number),
        "mask.jpg": image("JPEG", number),
        "bin": bytes([number]),
    }


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    path = tmp_path_factory.mktemp("decoded") / "a.tar"
    path.write_bytes(
        tar_of({f"s{number}.{name}": blob for number in range(4) for name, blob in members(number).items()})
    )
    return path


def same(one, two):
    if isinstance(one, np.ndarray | torch.Tensor):
        return type(one) is type(two) and one.dtype == two.dtype and np.array_equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[name], two[name]) for name in one)
    return type(one) is type(two) and one == two


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_samples_are_those_of_webdatasets_own_decode(tar):
    dataset = StreamingDataset(remote=tar, decode="basic")
    with tar.open("rb") as file:
        raw = list(webdataset.tariterators.tar_file_expander([{"url": "a.tar", "stream": file}]))
    raw = list(webdataset.tariterators.group_by_keys(raw))
    theirs = webdataset.decode("rgb8")(raw)
    for number, sample in enumerate(theirs):
        ours = dataset[number]
        for name in members(number).keys() - {"flac", "json", "meta.jsn"}:
            assert same(ours[name], sample[name]), name
        assert ours["meta.jsn"] == sample["meta.jsn"] == [number, {"a": None}]
        assert ours["metadata"] == sample["json"]
        assert isinstance(ours["bin"], bytes)


@pytest.mark.parametrize("transform", [None, dict], ids=["in place", "sample by sample"])
def test_batches_stack_what_has_one_shape(tar, transform):
    loader = StreamingDataLoader(StreamingDataset(remote=tar, decode="basic", batch_size=3, transform=transform))
    first, last = loader
    assert first["cls"].tolist() == [0, 1, 2]
    assert last["cls"].tolist() == [3, 0, 0]
    assert first["png"].shape == (3, 4, 5, 3)
    assert first["png"].dtype == torch.uint8
    assert last["npy"][:, 0, 0].tolist() == [3, 0, 0]
    assert last["txt"] == ["number 3 ä", "", ""]
    assert last["meta.jsn"] == [[3, {"a": None}], None, None]
    assert last["bin"] == [b"\3", b"", b""]
    assert first["audio"].shape[0] == 3


def test_without_the_argument_they_are_bytes(tar):
    sample = StreamingDataset(remote=tar)[1]
    assert {name: sample[name] for name in members(1).keys() - {"flac", "json"}} == {
        name: blob for name, blob in members(1).items() if name not in {"flac", "json"}
    }


class Harmful:
    """An object whose unpickling would raise."""

    def __reduce__(self):
        return _unpickled, ()


def _unpickled():
    raise AssertionError("something was unpickled")


HARMFUL = {
    "npy": saved(lambda file, value: np.save(file, value, allow_pickle=True), np.array([Harmful()], object)),
    "npz": saved(lambda file, value: np.savez(file, a=value), np.array([Harmful()], object)),
    "state.pth": saved(lambda file, value: torch.save(value, file), Harmful()),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_nothing_is_unpickled(tmp_path, name):
    (tmp_path / "a.tar").write_bytes(tar_of({f"a.{name}": HARMFUL[name], "a.pkl": pickle.dumps(Harmful())}))
    dataset = StreamingDataset(remote=tmp_path, decode="basic", fields=["pkl"])
    assert dataset[0]["pkl"] == pickle.dumps(Harmful())
    with pytest.raises(SampleError, match=rf"sample 'a': its \.{name} cannot be decoded \("):
        StreamingDataset(remote=tmp_path, decode="basic")[0]


@pytest.mark.parametrize(("name", "blob"), [("cls", b"seven"), ("txt", b"\xff"), ("png", b"x"), ("jsn", b"{")])
def test_invalid_files_are_named(tmp_path, name, blob):
    (tmp_path / "a.tar").write_bytes(tar_of({f"a.{name}": blob}))
    with pytest.raises(SampleError, match=rf"sample 'a': its \.{name} cannot be decoded .* decode='none'"):
        StreamingDataset(remote=tmp_path, decode="basic")[0]


def test_without_pillow_images_are_bytes(tar, monkeypatch):
    monkeypatch.setattr("headrace.streaming.samples.decoded_fields._has_pillow", lambda: False)
    assert StreamingDataset(remote=tar, decode="basic")[0]["png"] == image("PNG", 0)


def test_an_unknown_way_is_named(tar):
    with pytest.raises(ConfigError, match="decode 'all' is not known: expected one of none, basic"):
        StreamingDataset(remote=tar, decode="all")
