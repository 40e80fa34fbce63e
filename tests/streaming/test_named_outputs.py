"""Codes, vectors and frames of one encoder at every door of the loader, with what clashes, is padded, or is missing."""

import json
import shutil

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, collate, webdataset_loader
from headrace.errors import ConfigError
from headrace.format.indexes.audio_fields import AudioFacts
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.manifests.manifests import Manifest, ShardEntry, commit_manifest
from headrace.format.shards.writer import ShardPlace, ShardWriter
from tests.support.audio_shards import commit
from tests.support.column_fixtures import write_columns
from tests.support.latent_builds import PARTITION
from tests.support.output_builds import LENGTHS, Built, assert_outputs, clips, expected, rows, write_audio
from tests.support.sounds import file_of

LATENTS = "latents/mel"
DOORS = {
    "threads": {},
    "workers": {"num_workers": 2},
    "sample by sample": {"transform": lambda sample: sample},
    "a new dict": {"transform": dict},
    "of samples": {"collate_fn": collate},
    "numpy": {"output": "numpy"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    write_audio(folder)
    Built(folder).commit()
    Built(folder, "spoilt", spoilt=LENGTHS[3]).commit()
    Built(folder, "all", scale=1000.0).commit()
    return folder


def loader(remote, *, num_workers=0, collate_fn=None, **options):
    return StreamingDataLoader(
        StreamingDataset(remote=str(remote), **options), num_workers=num_workers, collate_fn=collate_fn
    )


def tensors(batch):
    return {name: torch.as_tensor(value) if isinstance(value, np.ndarray) else value for name, value in batch.items()}


@pytest.mark.parametrize("remote", ["own", "joined"])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_same_outputs(root, remote, door):
    place = root / LATENTS if remote == "own" else root
    more = {} if remote == "own" else {"latents": ["mel"]}
    found = [tensors(batch) for batch in loader(place, batch_size=3, **more, **DOORS[door])]
    assert_outputs(rows(found))
    for batch in found:
        assert (batch["codes"].dtype, batch["codes"].shape[2]) == (torch.int16, 2)
        assert (batch["embedding"].dtype, tuple(batch["embedding"].shape)) == (torch.float32, (3, 3))
        assert set(batch) >= {"codes_length", "levels_length"}
        assert not {"embedding_length", "__outputs__"} & set(batch)
        for row, count in enumerate(batch["codes_length"].tolist()):
            assert (batch["codes"][row, count:] == -1).all()


@pytest.mark.parametrize("door", DOORS)
def test_windows_cut_outputs_with_the_audio_and_leave_vectors_whole(root, door):
    whole = {key: expected(samples) for key, samples in clips().items()}
    seen = set()
    for batch in map(tensors, loader(root, latents=["mel"], batch_size=3, window_seconds=0.2, **DOORS[door])):
        for row, key in enumerate(batch["keys"]):
            if batch["is_padding"][row]:
                continue
            first, count = int(batch["codes_offset"][row]), int(batch["codes_length"][row])
            assert first == round(float(batch["start_seconds"][row]) * 50)
            assert torch.equal(batch["codes"][row, :count], whole[key][0][first : first + count])
            assert torch.allclose(batch["embedding"][row], whole[key][1], atol=1e-6)
            seen.add((key, first))
    assert len(seen) == sum(-(-length // 3200) for length in LENGTHS)


@pytest.mark.parametrize("name", ["spoilt", "all"])
@pytest.mark.parametrize("remote", ["own", "joined"])
@pytest.mark.parametrize("door", DOORS)
def test_in_place_of_rejected_outputs_come_rows_of_length_0(root, remote, door, name):
    place = root / "latents" / name if remote == "own" else root
    more = {} if remote == "own" else {"latents": [name]}
    options = {"batch_size": 4, "on_missing_latents": "zeros", **more, **DOORS[door]}
    (batch,) = map(tensors, loader(place, **options))
    lost = set(clips()) if name == "all" else {"k3"}
    for row, key in enumerate(batch["keys"]):
        if key in lost:
            assert int(batch["codes_length"][row]) == int(batch["levels_length"][row]) == 0
            assert (batch["codes"][row] == -1).all()
            assert not batch["embedding"][row].any()
        else:
            assert torch.equal(batch["codes"][row, : batch["codes_length"][row]], expected(clips()[key])[0])
    assert set(batch["keys"]) == set(clips())
    assert batch["embedding"].ndim == 2


@pytest.mark.parametrize("more", [{}, {"window_seconds": 0.2}], ids=["whole", "windows"])
@pytest.mark.parametrize("remote", ["own", "joined"])
@pytest.mark.parametrize("door", DOORS)
def test_a_batch_of_rejected_outputs_alone_has_all_fields(root, remote, door, more):
    place = root / "latents/spoilt" if remote == "own" else root
    joined = {} if remote == "own" else {"latents": ["spoilt"]}
    options = {"batch_size": 1, "on_missing_latents": "zeros", **more, **joined, **DOORS[door]}
    found = {batch["keys"][0]: batch for batch in map(tensors, loader(place, **options))}
    assert set(found) == set(clips())
    assert (found["k3"]["codes"].shape, found["k3"]["levels"].shape) == ((1, 0, 2), (1, 0, 1))
    assert found["k3"]["embedding"].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("remote", ["own", "joined"])
@pytest.mark.parametrize("door", DOORS)
def test_a_sample_with_a_rejected_output_may_be_a_row_of_padding(root, remote, door):
    place = root / "latents/spoilt" if remote == "own" else root
    more = {} if remote == "own" else {"latents": ["spoilt"]}
    options = {"batch_size": 4, "on_missing_latents": "skip", **more, **DOORS[door]}
    (batch,) = map(tensors, loader(place, **options))
    assert batch["is_padding"].sum() == 1
    assert rows([batch]).keys() == set(clips()) - {"k3"}


PADS = {
    "a code": ({"codes": 777}, None),
    "the greatest number": ({"codes": 32_767}, None),
    "too large": ({"codes": 32_768}, r"pad\['codes'\] is 32768, and codes are int16"),
    "a fraction": ({"codes": 0.5}, r"pad\['codes'\] is 0.5, and codes are int16"),
    "not a number": ({"codes": float("nan")}, r"pad\b.*codes"),
    "infinite": ({"codes": float("inf")}, r"pad\b.*codes"),
    "frames": ({"levels": 1}, "pad: 'levels' .* only codes"),
    "a vector": ({"embedding": 1}, "pad: 'embedding' .* only codes"),
    "lengths": ({"codes_length": 1}, "pad: "),
    "frames without a name": ({"encoder_hidden": 1}, "pad: "),
    "audio": ({"audio": 1}, "pad: "),
}


@pytest.mark.parametrize("case", PADS)
@pytest.mark.parametrize("remote", ["own", "joined"])
@pytest.mark.parametrize("door", DOORS)
def test_only_codes_are_padded_with_what_the_user_says(root, remote, door, case):
    pad, words = PADS[case]
    place = root / LATENTS if remote == "own" else root
    more = {} if remote == "own" else {"latents": ["mel"]}
    if words is not None:
        with pytest.raises(ConfigError, match=words):
            list(loader(place, batch_size=4, pad=pad, **more, **DOORS[door]))
        return
    (batch,) = map(tensors, loader(place, batch_size=4, pad=pad, **more, **DOORS[door]))
    shortest = int(batch["codes_length"].argmin())
    assert (batch["codes"][shortest, int(batch["codes_length"][shortest]) :] == pad["codes"]).all()


@pytest.mark.parametrize("door", DOORS)
def test_plain_tars_of_latents_have_their_outputs_too(root, tmp_path, door):
    for path in (root / LATENTS).glob("*.tar"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert_outputs(rows([tensors(batch) for batch in loader(tmp_path, batch_size=3, **DOORS[door])]))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_plain_loader_stacks_and_pads_them(root, num_workers):
    found = list(webdataset_loader(str(root / LATENTS), num_workers=num_workers, batch_size=3))
    assert_outputs(rows(found))
    assert any((batch["codes"] == -1).any() for batch in found)


def stems_of(folder):
    """Audio shards with the named audio fields `mix` and `codes`."""
    built, place = Built(folder), ShardPlace("train", 0, 0)
    with ShardWriter(built.audio, place) as writer:
        for key, samples in clips().items():
            blob, facts = file_of(samples, "FLAC", rate_hz=16_000), AudioFacts(len(samples), 16_000, 1)
            about = {"num_frames": len(samples), "sample_rate": 16_000, "num_channels": 1, "source": "a.wav"}
            about["fields"] = {name: {"num_channels": 1} for name in ("mix", "codes")}
            entry = SampleEntry(key, {}, *facts, audio={"mix": facts, "codes": facts})
            files = {"mix.flac": blob, "codes.flac": blob, "json": json.dumps({"headrace": about}).encode()}
            writer.add(key, {name: (data, len(data)) for name, data in files.items()}, entry)
        index = writer.publish("input", {})
    entry = ShardEntry(index.shard, index.num_bytes, len(index), int(index.num_frames.sum()), 2.0, "input", len(index))
    manifest = Manifest(PARTITION, "wanted", "fingerprint", {"samples_per_shard": 50}, (entry,))
    commit(built.audio, commit_manifest(built.audio, manifest, None))
    built.commit()


def test_an_output_may_not_have_the_name_of_an_audio_field(tmp_path):
    stems_of(tmp_path)
    with pytest.raises(ConfigError, match="'codes' is an output and has the name of an audio field"):
        StreamingDataset(remote=str(tmp_path), latents=["mel"], batch_size=1)
    chosen = {"latents": ["mel"], "fields": ["mix", "levels"]}
    (batch,) = loader(tmp_path, batch_size=4, **chosen)
    assert {"mix", "levels"} <= set(batch)
    assert "codes" not in batch


CLASHES = {
    "a raster": {"rasters": {"codes": {"column": "events", "hz": 50}}},
    "a raster with the name of lengths": {"rasters": {"codes_length": {"column": "events", "hz": 50}}},
    "a tensor": {"tensors": ["codes"]},
}


@pytest.mark.parametrize("case", CLASHES)
def test_an_output_may_not_have_the_name_of_another_field(root, tmp_path, case):
    folder = tmp_path / "copy"
    shutil.copytree(root, folder)
    write_columns(folder, "scores", {"codes": ("float", lambda key: 1.0)})
    with pytest.raises(
        ConfigError, match=r"'codes\w*' .*has the name of|'codes' of the set 'scores' is a tensor and has the name of"
    ):
        StreamingDataset(remote=str(folder), latents=["mel"], columns=["scores"], batch_size=1, **CLASHES[case])


CUTS = {
    "windows": {"window_seconds": 0.1},
    "windows of latents that are joined": {"window_seconds": 0.1, "latents": ["mel"]},
    "windows of some fields": {"window_seconds": 0.1, "fields": ["metadata"]},
    "crops of latents that are joined": {"crop_seconds": 0.1, "latents": ["mel"]},
}


@pytest.mark.parametrize("case", CUTS)
def test_latents_without_time_cannot_be_cut_by_their_own(root, tmp_path, case):
    folder = tmp_path / "copy"
    shutil.copytree(root, folder)
    Built(folder, "vector", encoder="tests.support.outputs_encoder:Vector").commit()
    words = "nothing to cut there: name the latents with a time axis as remote, and join this folder to them"
    with pytest.raises(ConfigError, match=words):
        list(loader(folder / "latents/vector", batch_size=2, **CUTS[case]))
