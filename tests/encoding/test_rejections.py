"""A sample whose latents cannot be stored keeps its place without them, and says why; the others are what they were."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings
from headrace.errors import BuildError
from headrace.format.indexes.index import ABSENT, REFUSED_NOTE, index_name
from headrace.format.indexes.indexing import index_tar
from headrace.format.manifests.manifests import newest_manifest
from headrace.verification.audit import conservation_faults, index_faults, pairing_faults, snapshot_faults
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.latent_builds import PARTITION, Broken, Latents
from tests.support.rejections import Broken30

RATE_HZ = 16_000
NAN, HUGE = float("nan"), 1e5
CLIPS = {f"k{i}": noise(4000 + 500 * i, i) for i in range(8)}
KEYS = list(CLIPS)
SHARDS = [{key: CLIPS[key] for key in KEYS[:5]}, {key: CLIPS[key] for key in KEYS[5:]}]


def built(tmp_path, bad, dtype="float16", shards=SHARDS):
    """Latents of the shards; `bad` says which keys break, and by which number."""
    made = Latents(tmp_path)
    commit(made.audio, write_partition(made.audio, shards))
    made.settings = LatentSettings(made.settings.encoder, dtype)
    encoder = Broken({len(CLIPS[key]): value for key, value in bad.items()})
    made.encoders = lambda: [encoder]
    return made, made.build(), encoder


def refused(build):
    return {refusal.key: refusal.code for refusal in build.manifest.manifest.refused}


PLACES = {
    "first": ["k0"],
    "middle": ["k2"],
    "last": ["k4"],
    "two of two shards": ["k1", "k6"],
    "all of a shard": KEYS[5:],
    "all": KEYS,
}


@pytest.mark.medium
@pytest.mark.parametrize("keys", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(("value", "dtype", "code"), [(NAN, "float32", "not_finite"), (HUGE, "float16", "overflow")])
def test_the_sample_stays_without_its_latents_and_all_others_are_as_without_it(tmp_path, keys, value, dtype, code):
    made, build, _ = built(tmp_path / "broken", dict.fromkeys(keys, value), dtype)
    sound, whole, _ = built(tmp_path / "sound", {}, dtype)
    manifest = build.manifest.manifest
    assert refused(build) == dict.fromkeys(keys, code)
    assert [refusal.path for refusal in manifest.refused] == [f"{key}.wav" for key in keys]
    assert all("latents" in refusal.reason for refusal in manifest.refused)
    for shard, other in zip(manifest.shards, whole.manifest.manifest.shards, strict=True):
        index, sound_index = made.index(shard.name), sound.index(other.name)
        assert index.keys() == sound_index.keys()
        assert shard.num_samples == other.num_samples
        kept = [i for i, key in enumerate(index.keys()) if key not in keys]
        lost = [i for i, key in enumerate(index.keys()) if key in keys]
        assert shard.num_frames == sound_index.num_frames[kept].sum()
        assert (index.num_frames[lost] == ABSENT).all()
        assert (index.tensors[lost] == ABSENT).all()
        assert index.tensor_dtype == (dtype if kept else "")
        for i in kept:
            assert np.array_equal(made.sample(shard.name, index.key(i))[2], sound.sample(other.name, index.key(i))[2])
        for i in lost:
            assert index.range_of(i, "pth") is None
            about = json.loads(made.storage.read_ranges(shard.name, [index.range_of(i, "json")])[0])
            assert about["headrace"]["refused"] == code
            assert about["headrace"]["source"] == f"{index.key(i)}.wav"


def test_finite_numbers_beyond_the_dtype_overflow_and_those_at_its_edge_fit(tmp_path):
    values = {"k0": 65504.0, "k1": 65519.0, "k2": 65520.0, "k3": -1e5, "k4": float("inf"), "k5": -1.0}
    _, build, _ = built(tmp_path, values)
    assert refused(build) == {"k2": "overflow", "k3": "overflow", "k4": "not_finite"}


@pytest.mark.medium
def test_what_checks_a_shard_accepts_it(tmp_path):
    for name, keys in PLACES.items():
        made, build, _ = built(tmp_path / name, dict.fromkeys(keys, NAN))
        manifest = build.manifest.manifest
        for shard in manifest.shards:
            assert index_faults(made.storage, shard) == []
            with made.storage.open(shard.name) as file:
                again = index_tar(file, shard.name)
            stored = made.index(shard.name)
            assert again.fields == stored.fields
            assert np.array_equal(again.ranges, stored.ranges)
            assert set(again.rejections) == set(stored.rejections)
        assert pairing_faults(made.audio, made.storage, manifest) == []
        numbered, _ = commit_latents(made.audio, made.storage, made.settings)
        assert numbered.snapshot.num_samples == 8
        assert snapshot_faults(made.storage, numbered.snapshot) == []
        verdict = verify(find_target(str(made.storage.root)), Depth(samples_per_shard=9))
        assert verdict.faults == []
        assert verdict.num_samples == 8


def test_latents_that_are_gone_without_a_reason_fail_the_check_of_pairs(tmp_path):
    made, build, _ = built(tmp_path, {"k2": NAN})
    manifest = build.manifest.manifest
    (fault,) = pairing_faults(made.audio, made.storage, replace(manifest, refused=()))
    assert fault == f"{build.written[0]}: k2 has no latents, and the manifest gives no reason"
    more = (*manifest.refused, replace(manifest.refused[0], key="k3"))
    (fault,) = pairing_faults(made.audio, made.storage, replace(manifest, refused=more))
    assert fault == "train-0000: k3 is rejected, and has latents"


def test_verify_compares_the_rejections_of_index_and_tar(tmp_path):
    made, build, _ = built(tmp_path, {"k2": NAN})
    commit_latents(made.audio, made.storage, made.settings)
    index = made.index(build.written[0])
    silent = replace(index, notes=index.notes | {REFUSED_NOTE: "[]"})
    (made.storage.root / index_name(index.shard)).write_bytes(silent.to_bytes())
    (fault,) = verify(find_target(str(made.storage.root)), Depth()).faults
    assert fault.what == ".idx: rejected is (), the tar has ('k2',)"


def test_the_next_build_does_nothing(tmp_path):
    made, build, encoder = built(tmp_path, {"k2": NAN})
    before = encoder.num_rows
    again = made.build()
    assert again.manifest == build.manifest
    assert encoder.num_rows == before


@pytest.mark.medium
@pytest.mark.parametrize("keys", PLACES.values(), ids=PLACES)
def test_with_unchanged_audio_it_stays_rejected_and_is_not_encoded_again(tmp_path, keys):
    made, build, encoder = built(tmp_path, dict.fromkeys(keys, HUGE))
    encoder.num_rows = 0
    write_partition(made.audio, SHARDS, metadata={key: {"title": key} for key in CLIPS})
    again = made.build()
    assert len(again.written) == 2
    assert (encoder.num_rows, again.stats.num_kept) == (0, 8)
    assert again.manifest.manifest.refused == build.manifest.manifest.refused


def test_changed_audio_is_encoded_again(tmp_path):
    made, _, encoder = built(tmp_path, {"k2": HUGE, "k3": NAN})
    encoder.num_rows = 0
    write_partition(made.audio, [SHARDS[0] | {"k2": noise(len(CLIPS["k2"]) + 1, 77)}, SHARDS[1]])
    again = made.build()
    assert encoder.num_rows == 1
    assert refused(again) == {"k3": "not_finite"}


@pytest.mark.medium
@pytest.mark.parametrize("keys", [["k2"], KEYS])
def test_another_dtype_or_encoder_encodes_it_again(tmp_path, keys):
    made, _, _ = built(tmp_path, dict.fromkeys(keys, HUGE))
    made.settings = LatentSettings(made.settings.encoder, "bfloat16")
    assert refused(made.build()) == {}
    mended = Broken({})
    mended.fingerprint = "f" * 64
    made.encoders, made.settings = lambda: [mended], LatentSettings("f" * 64)
    assert refused(made.build()) == {}
    assert mended.num_rows >= 8


def test_shards_that_a_killed_build_left_say_what_was_rejected(tmp_path):
    made, build, encoder = built(tmp_path, {"k2": NAN, "k7": NAN})
    made.storage.delete(f"manifests/{PARTITION}/{build.manifest.number:08d}.json")
    encoder.num_rows = 0
    again = made.build()
    assert again.manifest.manifest == build.manifest.manifest
    assert encoder.num_rows == 0


@pytest.mark.parametrize("at", [0, 20_000, 38_000])
@pytest.mark.parametrize(("value", "code"), [(NAN, "not_finite"), (HUGE, "overflow")])
def test_a_long_recording_is_rejected_for_any_of_its_windows(tmp_path, at, value, code):
    loud = noise(40_000, 1)
    loud[at : at + 1600] = 0.99
    clips = [{"before": noise(9000, 2), "long": loud, "after": noise(40_000, 3), "short": noise(3000, 4)}]
    made = Latents(tmp_path)
    write_partition(made.audio, clips)
    made.settings = LatentSettings(made.settings.encoder)
    made.encoders = lambda: [Broken30({0: value})]
    build = made.build()
    assert refused(build) == {"long": code}
    assert made.index(build.written[0]).num_frames.tolist() == [57, ABSENT, 251, 19]


class Spreading(Broken):
    """Encoder that gives no number for all rows of a batch if it gives none for one of them."""

    def encode(self, batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, num_latent = super().encode(batch, lengths)
        return hidden + hidden.mean() * 0, num_latent


def test_an_encoder_whose_flaws_spread_over_the_batch_is_refused(tmp_path):
    made = Latents(tmp_path)
    write_partition(made.audio, SHARDS)
    made.encoders = lambda: [Spreading({len(CLIPS["k5"]): NAN})]
    with pytest.raises(BuildError, match=r"'k0': .*depend on the rest of the batch"):
        made.build()


def test_newest_manifest_reads_what_was_rejected(tmp_path):
    made, build, _ = built(tmp_path, {"k2": NAN})
    assert newest_manifest(made.storage, PARTITION).manifest.refused == build.manifest.manifest.refused


def test_audio_manifests_are_checked_as_before(tmp_path):
    made, _, _ = built(tmp_path, {"k2": NAN})
    assert conservation_faults(made.audio, newest_manifest(made.audio, PARTITION)) == []
