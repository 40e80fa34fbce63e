"""docs/batches.md lists the fields of real batches, with their shapes and dtypes, and of samples."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, World, collate
from tests.support.streaming.corpus import RATE_HZ, WIDTH, clips, write_dataset, write_latents
from tests.support.tars import tar_of

DOCUMENT = Path("docs/batches.md").read_text()
LINES = [line.strip("|").split("|") for line in DOCUMENT.splitlines() if line.startswith("| `")]
ROWS = [[cell.strip() for cell in line] for line in LINES]
SHAPES = {row[0].strip("`"): row[1] for row in ROWS}
DTYPES = {row[0].strip("`"): row[2] for row in ROWS}
OF_SAMPLES = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[5])}

ALWAYS = {"keys", "metadata", "is_padding"}
AUDIO = ALWAYS | {"audio", "num_frames", "sample_rate"}
START = "start_seconds"
LATENTS = {"encoder_hidden", "encoder_length"}
JOINED = ["latents/crepe"]
CASES = {
    "audio": ("audio", {}, AUDIO),
    "resampled": ("audio", {"sample_rate": 4000}, AUDIO),
    "cropped": ("audio", {"crop_seconds": 0.05}, AUDIO | {"frame_offset", START}),
    "latents": ("latents/crepe", {}, ALWAYS | LATENTS),
    "cropped latents": ("latents/crepe", {"crop_frames": 2}, ALWAYS | LATENTS | {"encoder_offset", START}),
    "joined": ("audio", {"latents": JOINED}, AUDIO | LATENTS),
    "joined and cropped": (
        "audio",
        {"latents": JOINED, "crop_seconds": 0.05},
        AUDIO | LATENTS | {"frame_offset", "encoder_offset", START},
    ),
    "windows": (
        "audio",
        {"latents": JOINED, "window_seconds": 0.3},
        AUDIO | LATENTS | {"frame_offset", "encoder_offset", START},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten samples, so that the last batch of four is padded; latents of two encoders."""
    folder = tmp_path_factory.mktemp("batches")
    samples = {"train": clips(10)}
    audio = write_dataset(folder, samples, latents=True)
    write_latents(folder, {"train": [replace(clip, encoder=1) for clip in samples["train"]]}, audio, name="mel")
    return folder


def opened(folder, remote, **more):
    more["latents"] = [f"{folder}/{name}" for name in more.pop("latents", [])]
    return StreamingDataset(remote=f"{folder}/{remote}", batch_size=4, world=World(0, 1), **more)


def check(batch, suffix=""):
    """Every field has the shape, with one meaning of each letter, and the dtype of the document."""
    sizes = {"B": 4, "C": 1, "D": WIDTH}
    for name, value in batch.items():
        documented = name.removesuffix(suffix)
        shape, dtype = SHAPES[documented], DTYPES[documented]
        if dtype.startswith("list of "):
            assert shape == "B"
            assert len(value) == 4
            assert {type(one).__name__ for one in value} == {dtype.removeprefix("list of ")}
            continue
        letters = re.findall(r"[A-Z]", shape)
        assert len(letters) == value.ndim, name
        for letter, size in zip(letters, value.shape, strict=True):
            assert sizes.setdefault(letter, size) == size, name
        expected = "float16" if dtype == "as stored" else dtype
        assert str(value.dtype).removeprefix("torch.") == expected, name


@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("case", CASES)
def test_a_batch_holds_the_fields_of_the_document(folder, case, output):
    remote, more, fields = CASES[case]
    *_, last = batches = list(StreamingDataLoader(opened(folder, remote, output=output, **more)))
    for batch in batches:
        assert set(batch) == fields
        check(batch)
    assert last["is_padding"].tolist() == [False, False, True, True]
    assert last["keys"][2:] == ["", ""]
    assert last["metadata"][2:] == [{}, {}]
    if "audio" in last:
        assert last["num_frames"][2:].tolist() == last["sample_rate"][2:].tolist() == [0, 0]
        assert set(batches[0]["sample_rate"].tolist()) == {more.get("sample_rate", RATE_HZ)}
    if "encoder_length" in last:
        assert last["encoder_length"][2:].tolist() == [0, 0]


def test_every_field_of_the_document_is_in_some_batch():
    assert set(SHAPES) == set().union(*(fields for _, _, fields in CASES.values()))


def test_fields_of_several_sets_of_latents_end_in_their_names(folder):
    dataset = opened(folder, "audio", latents=["latents/crepe", "latents/mel"], crop_seconds=0.05)
    batch = next(iter(StreamingDataLoader(dataset)))
    of_latents = {f"{name}_{of}" for name in (*LATENTS, "encoder_offset") for of in ("crepe", "mel")}
    assert set(batch) == AUDIO | {"frame_offset", START} | of_latents
    for suffix in ("_crepe", "_mel"):
        other = {"_crepe": "_mel", "_mel": "_crepe"}[suffix]
        check({name: value for name, value in batch.items() if not name.endswith(other)}, suffix)


@pytest.mark.medium
def test_samples_have_the_fields_of_the_documents_last_column_and_collate_makes_that_batch(folder):
    found = set()
    for remote, more, fields in CASES.values():
        samples = list(opened(folder, remote, **more))
        found |= {name for sample in samples for name in sample}
        batch = collate(samples[:4])
        assert set(batch) == fields
        check(batch)
    assert found == OF_SAMPLES - {"num_frames"}
    assert "**A sample says `__key__`, a batch says `keys`**" in DOCUMENT


def test_other_files_are_lists_of_bytes_empty_in_padding_rows(tmp_path):
    members = {f"{number}.txt": str(number).encode() for number in range(3)}
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    dataset = StreamingDataset(remote=str(tmp_path), batch_size=2, world=World(0, 1))
    batches = list(StreamingDataLoader(dataset))
    assert [batch["txt"] for batch in batches] == [[b"0", b"1"], [b"2", b""]]
    assert set(batches[0]) == ALWAYS | {"txt"}
    assert 'lists of bytes, `b""` in padding rows' in DOCUMENT


def test_bfloat16_comes_as_float32_to_numpy_and_as_itself_to_torch(folder):
    def narrow(sample):
        return sample | {"encoder_hidden": torch.as_tensor(sample["encoder_hidden"]).bfloat16()}

    for output, dtype in (("torch", torch.bfloat16), ("numpy", np.float32)):
        dataset = opened(folder, "latents/crepe", transform=narrow, output=output)
        assert next(iter(StreamingDataLoader(dataset)))["encoder_hidden"].dtype == dtype
    assert "`bfloat16` comes as float32" in DOCUMENT


@pytest.mark.parametrize("page", ["README.md", "headrace/streaming/loader.py"])
def test_readers_are_led_there(page):
    assert "docs/batches.md" in Path(page).read_text()
