"""`headrace verify --encode-again`: a share of the latents encoded again, at least one of each group."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.cli import main
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.made_by import MadeBy
from headrace.verification.certificate import drawn
from tests.support.audio_shards import noise
from tests.support.certified_latents import CertifiedLatents
from tests.support.latent_builds import MEL
from tests.support.latent_damage import replace_latents

OTHER = MadeBy("A GPU", "2.9.0", "91200")


@pytest.fixture
def data(tmp_path):
    return CertifiedLatents(tmp_path)


def result(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.medium
def test_sound_latents_are_within_the_bounds(data, capsys):
    assert data.verify("--json") == 0
    found = result(capsys)
    assert (found["faults"], found["device"]) == ([], "cpu")
    mel = found["sets"]["mel"]
    assert mel["num_samples"] == 12
    assert mel["groups"] == {f"cpu, torch {torch.__version__}": 12}
    assert mel["outputs"]["encoder_hidden"]["largest_error"] <= mel["outputs"]["encoder_hidden"]["allowed"] == 2e-4
    assert mel["outputs"]["encoder_hidden"]["equal_codes"] is None


@pytest.mark.medium
def test_a_changed_value_is_named_although_its_checksums_are_right(data, capsys):
    def change(latents):
        return {key: values + (key == "s2k1") * torch.eye(*values.shape) for key, values in latents.items()}

    replace_latents(data.storage, change)
    assert main(["verify", str(data.root)]) == 0
    capsys.readouterr()
    assert data.verify("--json") == 1
    (fault,) = result(capsys)["faults"]
    assert "latent_train_0000_000002-" in fault["where"]
    assert "sample 's2k1': encoder_hidden: encoded alone, a frame differs by" in fault["what"]
    assert f"made by cpu, torch {torch.__version__}" in fault["what"]


@pytest.mark.medium
def test_a_folder_of_latents_is_encoded_again_with_the_audio_beside_it(data, capsys):
    assert data.verify("--json", path=data.root / "latents/mel") == 0
    assert result(capsys)["sets"]["mel"]["num_samples"] == 12


def test_codes_are_compared_by_their_share(tmp_path, capsys):
    audio = torch.from_numpy(noise(4000, 1))[None, None]
    frames = encoders.load("log_mel", MEL).encode(audio, torch.tensor([4000]))
    np.save(tmp_path / "c.npy", frames[0][0, ::5].numpy())
    inner = {"kind": "log_mel", **MEL}
    data = CertifiedLatents(tmp_path, {"kind": "kmeans", "encoder": inner, "centroids": str(tmp_path / "c.npy")})
    assert data.verify("--json") == 0
    units = result(capsys)["sets"]["mel"]["outputs"]
    assert [(one["equal_codes"], one["largest_error"]) for one in units.values()] == [(1.0, 0.0)]
    assert all(one["num_values"] > 100 for one in units.values())


def _shards(data, *groups):
    names = [shard.name for shard in data.built.manifest.manifest.shards]
    return [(read_index(data.storage, name), group) for name, group in zip(names, groups, strict=True)]


def _keys(chosen):
    return {one.index.key(one.row) for one in chosen}


def test_the_share_is_a_function_of_keys_and_has_a_sample_of_each_group(data):
    cpu = MadeBy("cpu", "2.13.0")
    one_group = _shards(data, *[(cpu,)] * 4)
    (least,) = drawn(one_group, 1e-9)
    chosen = [_keys(drawn(one_group, share)) for share in (0.2, 0.5, 0.8, 1)]
    assert all(first <= second for first, second in pairwise(chosen))
    assert _keys([least]) <= chosen[1]
    assert len(chosen[-1]) == 12
    assert _keys(drawn(one_group[::-1], 0.5)) == chosen[1]
    several = _shards(data, (cpu,), (OTHER,), (replace(OTHER, torch="2.8.0"),), (None,))
    found = drawn(several, 1e-9)
    assert {group for one in found for group in one.groups} == {cpu, OTHER, replace(OTHER, torch="2.8.0"), None}
    assert len(found) == 4
    mixed = drawn(_shards(data, (cpu, OTHER), (cpu,), (cpu,), (cpu,)), 1e-9)
    assert {one.groups for one in mixed} == {(cpu,), (cpu, OTHER)}  # of `cpu` one that it surely made
    assert len(mixed) == 2
    every = drawn(_shards(data, (cpu, OTHER), (OTHER,), (cpu, OTHER), (cpu,)), 1e-9)
    assert sorted(one.groups for one in every) == sorted([(cpu,), (OTHER,)])


def test_samples_without_latents_are_not_drawn(tmp_path):
    """Latents of one length are not finite."""
    data = CertifiedLatents(tmp_path, lengths={"s1k0": 3000, "s2k1": 3000}, refused=3000)
    chosen = drawn(_shards(data, *[(None,)] * 4), 1)
    assert len(chosen) == 10
    assert not {"s1k0", "s2k1"} & _keys(chosen)


def test_a_set_without_samples_has_an_empty_certificate(tmp_path, capsys):
    data = CertifiedLatents(
        tmp_path, lengths={f"s{shard}k{i}": 3000 for shard in range(4) for i in range(3)}, refused=3000
    )
    assert data.verify("--json") == 0
    assert result(capsys)["sets"]["mel"] == {"num_samples": 0, "groups": {}, "outputs": {}}
