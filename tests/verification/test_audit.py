"""The files of a shard folder are compared with each other: manifest, index, tar, snapshot and `sizes.json`."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.format.indexes.index import ABSENT
from headrace.format.manifests.manifests import ManifestRejection, newest_manifest
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import LocalStorage
from headrace.verification import audit
from headrace.verification.audit import conservation_faults, index_faults, pairing_faults, snapshot_faults
from tests.support.streaming.corpus import clips


@pytest.fixture
def audio(output):
    return LocalStorage(output / "audio")


@pytest.fixture
def numbered(audio):
    return newest_manifest(audio, "train-0000")


def test_sizes_json_and_the_tars_are_those_of_the_snapshot(audio, output):
    snapshot = read_snapshot(audio).snapshot
    assert snapshot_faults(audio, snapshot) == []
    first, second = sorted(path.name for path in (output / "audio").glob("*.tar"))
    audio.write("sizes.json", json.dumps({first: 4, "more.tar": 1}).encode())
    (output / "audio" / second).unlink()
    found = snapshot_faults(audio, snapshot)
    assert f"sizes.json: {first} is 4, the snapshot says 5" in found
    assert f"sizes.json: {second} is None, the snapshot says 3" in found
    assert "sizes.json: more.tar is 1, the snapshot says None" in found
    assert any(fault.startswith(f"{second}: 0 bytes are there") for fault in found)
    assert len(found) == 4


def test_an_index_is_compared_with_its_tar_and_its_manifest(audio, numbered, output):
    shard = numbered.manifest.shards[0]
    assert index_faults(audio, shard) == []
    assert index_faults(audio, replace(shard, num_samples=6)) == [
        f"{shard.name}: the index lists 5 samples, the manifest 6"
    ]
    (output / "audio" / shard.name).unlink()
    assert len(index_faults(audio, shard)) == 1


def planned(monkeypatch, *extra):
    """Let the clips be planned, and these keys besides."""
    keys = [clip.key for clip in clips(8)]
    monkeypatch.setattr(audit, "read_planned_keys", lambda *_: [[*keys[:5], *extra], keys[5:]])


def refusing(numbered, count):
    refused = tuple(ManifestRejection(f"{one}.wav", "undecodable", "why", "") for one in range(count))
    return replace(numbered, manifest=replace(numbered.manifest, refused=refused))


def test_what_is_planned_is_written_or_rejected(audio, numbered, monkeypatch):
    planned(monkeypatch)
    assert conservation_faults(audio, numbered) == []
    planned(monkeypatch, "lost")
    assert conservation_faults(audio, refusing(numbered, 1)) == []
    assert conservation_faults(audio, numbered) == [
        "train-0000: 1 planned samples of 1 recordings are not written, 0 recordings are rejected"
    ]
    assert len(conservation_faults(audio, refusing(numbered, 2))) == 1


def test_segments_of_one_rejected_recording_are_not_written(audio, numbered, monkeypatch):
    planned(monkeypatch, "long-s000000", "long-s000001")
    assert conservation_faults(audio, refusing(numbered, 1)) == []


def test_what_is_written_is_planned(audio, numbered, monkeypatch):
    monkeypatch.setattr(audit, "read_planned_keys", lambda *_: [[], [clip.key for clip in clips(8)[5:]]])
    found = conservation_faults(audio, numbered)
    assert found[0] == f"{numbered.manifest.shards[0].name}: clip00000 was written and not planned"
    assert len(found) == 5


class FakeIndex:
    """The index of a latent shard, or of its audio; samples in `bare` have no latents."""

    def __init__(self, shard, keys, audio="", bare=()):
        self.shard, self._keys, self._audio = shard, keys, audio
        self.tensors = np.array([[[ABSENT if key in bare else 0]] for key in keys])

    def note(self, name):
        return self._audio

    def keys(self):
        return self._keys

    def keys_of(self, rows):
        return [self._keys[row] for row in rows]


def pairing(monkeypatch, latents, audio, rejected=()):
    """The faults of these indexes of latents and of audio."""
    indexes = {index.shard: index for index in (*latents, *audio)}
    monkeypatch.setattr(audit, "read_index", lambda storage, name: indexes[name])
    manifests = [
        SimpleNamespace(
            partition="train-0000",
            shards=[SimpleNamespace(name=index.shard, num_samples=len(index.keys())) for index in made],
            refused=[SimpleNamespace(key=key) for key in rejected],
        )
        for made in (audio, latents)
    ]
    monkeypatch.setattr(audit, "newest_manifest", lambda *_: SimpleNamespace(manifest=manifests[0]))
    return pairing_faults(None, None, manifests[1])


def test_latents_have_the_shards_and_keys_of_their_audio(monkeypatch):
    audio = [FakeIndex("a", ["1", "2"]), FakeIndex("b", ["3"])]
    assert pairing(monkeypatch, [FakeIndex("l", ["1", "2"], "a"), FakeIndex("m", ["3"], "b")], audio) == []
    assert pairing(monkeypatch, [FakeIndex("l", ["2", "1"], "a"), FakeIndex("m", ["3"], "c")], audio) == [
        "b: an audio shard without latents",
        "c: has latents, but is not in the audio",
        "l: holds other keys than the audio shard a",
    ]


def test_samples_without_latents_are_those_that_are_rejected(monkeypatch):
    audio, latents = [FakeIndex("a", ["1", "2"])], [FakeIndex("l", ["1", "2"], "a", bare=["2"])]
    assert pairing(monkeypatch, latents, audio, rejected=["2"]) == []
    assert pairing(monkeypatch, latents, audio) == ["l: 2 has no latents, and the manifest gives no reason"]
    assert pairing(monkeypatch, latents, audio, rejected=["1", "2"]) == ["train-0000: 1 is rejected, and has latents"]
