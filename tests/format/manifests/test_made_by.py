"""Manifests of latents say what computed them, and no name or digest depends on it."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from headrace.encoding.engine import Engine
from headrace.errors import FormatError
from headrace.format.manifests.made_by import MadeBy, MadeShards, as_note, made_shards, makers_of, manifest_digest
from headrace.format.manifests.manifests import (
    Manifest,
    manifest_path,
    newest_entries,
    newest_manifest,
    read_lengths,
    read_summary,
)
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import PARTITION, Latents

CPU, GPU = MadeBy("cpu", "2.13.0"), MadeBy("A GPU", "2.9.0", "91200", compile=True)


def index(**notes):
    return SimpleNamespace(shard="a.tar", notes=notes)


def clips(*keys):
    return {key: noise(4000, sum(key.encode())) for key in keys}


@pytest.fixture
def made_by(monkeypatch):
    """Set what engines say of themselves."""

    def says(by):
        monkeypatch.setattr(Engine, "made_by", property(lambda _: by))

    says(CPU)
    return says


def test_a_build_says_what_computed_each_shard(tmp_path, made_by):
    data = Latents(tmp_path)
    write_partition(data.audio, [clips("a", "b"), clips("c")])
    first = data.build().manifest.manifest
    assert first.made == (MadeShards(CPU, (0, 1)),)
    assert newest_manifest(data.storage, PARTITION).manifest == first
    made_by(GPU)
    write_partition(data.audio, [clips("a", "b"), clips("c"), clips("d")])
    assert data.build().manifest.manifest.made == (MadeShards(GPU, (2,)), MadeShards(CPU, (0, 1)))


def test_copied_latents_keep_what_computed_them(tmp_path, made_by):
    data = Latents(tmp_path)
    write_partition(data.audio, [clips("a", "b"), clips("c", "x")])
    data.build()
    made_by(GPU)
    write_partition(data.audio, [clips("a", "b", "d"), clips("c")])
    built = data.build()
    assert built.stats.num_kept == 3
    assert built.manifest.manifest.made == (MadeShards(GPU, (0,)), MadeShards(CPU, (0, 1)))


def test_no_digest_depends_on_it(tmp_path, made_by):
    found = []
    for by in (CPU, GPU):
        made_by(by)
        data = Latents(tmp_path / by.device)
        write_partition(data.audio, [clips("a", "b"), clips("c")])
        found.append((data.build().manifest, data.storage))
    (one, _), (other, _) = found
    assert one.manifest.shards == other.manifest.shards
    assert one.manifest.made != other.manifest.made
    for numbered, storage in found:
        path = manifest_path(PARTITION, numbered.number)
        ((number, entry),) = newest_entries(storage).values()
        plain = replace(numbered.manifest, made=()).to_json()
        assert b'"made"' in storage.read(path)
        assert b'"made"' not in plain
        digests = {
            one.digest,
            numbered.manifest.digest,
            newest_manifest(storage, PARTITION).digest,
            read_summary(storage, number, entry).digest,
            manifest_digest(storage.read(path)),
            manifest_digest(plain),
        }
        assert len(digests) == 1
        assert read_lengths(storage, PARTITION, number, one.digest) == one.manifest.lengths


def test_a_manifest_is_read_back_and_every_field_counts_but_this():
    manifest = Manifest("train-0000", "w", "s", {}, (), made=(MadeShards(GPU, (0, 2)),))
    blob = manifest.to_json()
    assert Manifest.from_json(blob, "a") == manifest
    assert replace(manifest, wanted="x").digest != manifest.digest == replace(manifest, made=()).digest
    with pytest.raises(FormatError, match="CRC-32"):
        Manifest.from_json(blob.replace(b"A GPU", b"B GPU"), "a")


def test_notes_are_read_back_and_damaged_ones_are_named():
    assert makers_of(index(**as_note([GPU, CPU, GPU]))) == (GPU, CPU)
    assert makers_of(index()) == ()
    assert made_shards([index(), index(**as_note([CPU]))]) == (MadeShards(CPU, (1,)),)
    with pytest.raises(FormatError, match=r"a.tar: damaged index"):
        makers_of(index(made=json.dumps([{"device": 1}])))


def test_the_words_have_device_and_versions():
    assert str(CPU) == "cpu, torch 2.13.0"
    assert str(GPU) == "A GPU, torch 2.9.0, cuDNN 91200, compiled"
