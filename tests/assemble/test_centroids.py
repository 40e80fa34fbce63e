"""Centroids of units: fitted to the training audio, found again by their settings, and numbered."""

import numpy as np
import pytest

from headrace import encoders
from headrace.assemble.centroids import fit_and_store, newest_centroids, with_centroids
from headrace.config.content import LatentsConfig
from headrace.encoders.kmeans import parsed_settings
from headrace.errors import BuildError, IntegrityError, NotFoundError
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.audio_shards import commit, noise, write_partition

INNER = {"kind": "log_mel", "num_mels": 8}
UNITS = {"encoder": INNER, "num_codes": 6}


@pytest.fixture
def audio(tmp_path):
    storage = LocalStorage(tmp_path / "audio")
    clips = {f"k{number}": noise(3200, number) for number in range(6)}
    others = {f"v{number}": noise(3200, 10 + number) for number in range(2)}
    train = write_partition(storage, [clips])
    commit(storage, train, write_partition(storage, [others], partition="validation-0000"))
    return storage


def fitted(audio, storage, split="train", units=UNITS):
    def load(config):
        return [encoders.load(config.kind, config.settings)]

    return fit_and_store(audio, storage, parsed_settings(units), "", split, load)


def test_the_same_audio_gives_the_same_centroids_under_the_next_number(audio, tmp_path):
    storage, settings = LocalStorage(tmp_path / "units"), parsed_settings(UNITS)
    assert newest_centroids(storage, settings) is None
    first, num_frames = fitted(audio, storage)
    second, _ = fitted(audio, storage)
    assert first.split("-")[2] == second.split("-")[2]
    assert [name.split("-")[1] for name in (first, second)] == ["000001", "000002"]
    assert newest_centroids(storage, settings) == second
    assert np.load(storage.local_path(first)).shape == (6, 8)
    assert num_frames == 6 * encoders.load("log_mel", {"num_mels": 8}).num_latent_frames(3200)


def test_another_split_and_other_settings_have_other_centroids(audio, tmp_path):
    storage = LocalStorage(tmp_path / "units")
    name, num_frames = fitted(audio, storage, "validation")
    assert name.split("-")[2] != fitted(audio, LocalStorage(tmp_path / "other"))[0].split("-")[2]
    assert num_frames > 0
    for other in ({**UNITS, "num_codes": 5}, {**UNITS, "encoder": {**INNER, "num_mels": 9}}):
        assert newest_centroids(storage, parsed_settings(other)) is None
    with pytest.raises(BuildError, match="no samples of the split 'test'"):
        fitted(audio, storage, "test")


@pytest.mark.parametrize("uri", ["units", "memory://"])
def test_units_are_made_with_the_file(audio, tmp_path, uri, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    storage = open_storage(uri if ":" in uri else str(tmp_path / uri))
    latents = LatentsConfig(name="units", encoder={"kind": "kmeans", **UNITS})
    with pytest.raises(
        NotFoundError, match="no centroids of 6 codes of this encoder; materialize the asset units_centroids"
    ):
        with_centroids(latents, storage)
    fitted(audio, storage)
    found = with_centroids(latents, storage)
    assert found.fits_centroids is False
    assert with_centroids(found, storage) is found
    first = encoders.fingerprint(found.encoder.kind, found.encoder.settings)
    assert first == encoders.load(found.encoder.kind, found.encoder.settings).fingerprint
    audio_of_another = write_partition(audio, [{"a": noise(3200, 50), "b": noise(3200, 51)}])
    commit(audio, audio_of_another)
    assert with_centroids(latents, storage).encoder == found.encoder  # a change of the data changes nothing
    fitted(audio, storage)
    again = with_centroids(latents, storage)
    assert encoders.fingerprint(again.encoder.kind, again.encoder.settings) != first


def test_other_latents_stay_as_they_are(tmp_path):
    latents = LatentsConfig(name="mel", encoder=INNER)
    assert with_centroids(latents, LocalStorage(tmp_path)) is latents


def test_damaged_centroids_are_an_error_by_name_and_not_others(audio, tmp_path):
    """They would be another encoder, so that all units would be encoded again without a word."""
    storage = LocalStorage(tmp_path / "units")
    latents = LatentsConfig(name="units", encoder={"kind": "kmeans", **UNITS})
    path = storage.local_path(fitted(audio, storage)[0])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(IntegrityError, match=rf"{path.name}: the file is damaged"):
        with_centroids(latents, storage)
    path.write_bytes(whole)
    assert with_centroids(latents, storage).encoder.settings["centroids"] == str(path)
