"""Whichever fields are read, windows and crops are the same: those of all fields."""

import numpy as np
import pytest

from headrace import FrameBudget, StreamingDataLoader, StreamingDataset, encoders
from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.column_fixtures import write_columns
from tests.support.latent_builds import Latents
from tests.support.output_builds import Built

RATE_HZ = 16_000
LENGTHS = {"a": 4 * RATE_HZ, "b": 9001, "c": 8000, "d": 640}
PACES_HZ = {"codes": 50, "fine": 100, "levels": 25}
"""Frames per second of the outputs with time; the first comes first."""
OUTPUTS = ["embedding", *PACES_HZ]


def events(key):
    """Words of 50 ms, and between them a mark."""
    starts = np.arange(0, LENGTHS[key] / RATE_HZ, 0.1).round(3).tolist()
    return [
        {"start": start, "end": round(start + length, 3), "label": number}
        for number, start in enumerate(starts)
        for length in (0.05, 0.0)
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Audio with three sets of latents: of several paces, of one, and with a rejected sample."""
    folder = tmp_path_factory.mktemp("paces")
    samples = [(key, noise(length, number)) for number, (key, length) in enumerate(LENGTHS.items())]
    mel = Latents(folder)
    commit(mel.audio, write_partition(mel.audio, [dict(samples[:2]), dict(samples[2:])]))
    mel.build()
    commit_latents(mel.audio, mel.storage, mel.settings)
    paces = Built(folder, "paces")
    paces.own = {"encoder": "tests.support.outputs_encoder:Paces"}
    paces.settings = LatentSettings(encoders.fingerprint("custom", paces.own), "float32")
    paces.commit()
    Built(folder, "spoilt", spoilt=LENGTHS["b"]).commit()
    write_columns(folder, "metadata", {"number": ("int", list(LENGTHS).index)})
    write_columns(folder, "words", {"words": ("intervals", events)})
    return folder


SOURCES = {
    "audio": ("audio", {"latents": ["paces"]}, ["audio", *OUTPUTS]),
    "audio, two sets": ("audio", {"latents": ["mel", "paces"]}, ["audio", "encoder_hidden", *OUTPUTS]),
    "audio, a rejected sample": ("audio", {"latents": ["spoilt"]}, ["audio", "codes", "levels", "embedding"]),
    "latents": ("latents/paces", {}, OUTPUTS),
    "latents, some samples": ("latents/paces", {"where": "number < 3"}, OUTPUTS),
    "latents, a rejected sample": ("latents/spoilt", {}, ["codes", "levels", "embedding"]),
    "latents with latents": ("latents/mel", {"latents": ["paces"]}, ["encoder_hidden", *OUTPUTS]),
    "latents of paces with latents": ("latents/paces", {"latents": ["mel"]}, ["encoder_hidden", *OUTPUTS]),
}
CUTS = {
    "whole": {},
    "windows": {"window_seconds": 0.25, "window_hop_seconds": 0.2},
    "crop in seconds": {"crop_seconds": 0.21},
    "crop in frames": {"crop_frames": 12},
}
GRIDS = {"rasters": {"grid": {"column": "words", "hz": 40}}}
DOORS = {
    "in place": {},
    "in place, with grids": GRIDS,
    "sample by sample": {"transform": lambda sample: sample},
    "sample by sample, with grids": {"transform": lambda sample: sample, **GRIDS},
}


def batches(root, remote, **options):
    defaults = {"local": str(root / "cache"), "batch_size": 3, "shuffle": True, "output": "numpy"}
    loader = StreamingDataLoader(StreamingDataset(remote=str(root / remote), **(defaults | options)), num_workers=0)
    return list(loader)


def choices(names):
    """Each field alone, and all but the first ones, with metadata."""
    return [["metadata"], *([name] for name in names), [*names[1:], "metadata"], [*names[2:], "metadata"]]


def assert_same(found, whole):
    assert len(found) == len(whole)
    for one, other in zip(found, whole, strict=True):
        assert one.keys() <= other.keys()
        for name, values in one.items():
            if name == "metadata":  # the JSON is missing where it is not wanted
                assert [row.get("words") for row in values] == [row.get("words") for row in other[name]]
            else:
                np.testing.assert_array_equal(values, other[name], name)


@pytest.mark.medium
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_choice_of_fields_is_cut_at_the_same_places(root, source, cut, door):
    remote, latents, names = SOURCES[source]
    options = {**latents, **CUTS[cut], **DOORS[door], "columns": ["words"], "on_missing_latents": "zeros"}
    if remote == "audio" and "crop_frames" in options:
        options["crop_frames"] = 3333
    whole = batches(root, remote, **options)
    for fields in choices(names):
        found = batches(root, remote, fields=fields, **options)
        assert ("start_seconds" in found[0]) == (cut != "whole")
        assert_same(found, whole)


@pytest.mark.medium
@pytest.mark.parametrize("cut", CUTS)
def test_plain_tars_of_latents_are_cut_at_the_same_places(root, tmp_path, cut):
    for path in (root / "latents" / "paces").glob("*.tar"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    whole = batches(tmp_path, "", **CUTS[cut])
    for fields in choices(OUTPUTS):
        assert_same(batches(tmp_path, "", fields=fields, **CUTS[cut]), whole)


@pytest.mark.parametrize("door", ["in place", "sample by sample"])
@pytest.mark.parametrize("fields", [None, *([name] for name in OUTPUTS), ["fine", "levels"], ["metadata"]])
def test_windows_of_latents_are_those_of_their_first_output_with_time(root, fields, door):
    found = batches(root, "latents/paces", fields=fields, window_seconds=1, shuffle=False, **DOORS[door])
    starts = np.concatenate([batch["start_seconds"] for batch in found])
    assert starts[:4].tolist() == [0, 1, 2, 3]
    for name, pace in PACES_HZ.items():
        if name in found[0]:
            assert np.concatenate([batch[f"{name}_offset"] for batch in found])[:4].tolist() == [
                pace * second for second in range(4)
            ]
            assert set(np.concatenate([batch[f"{name}_length"] for batch in found])[:4].tolist()) == {pace}


@pytest.mark.parametrize("source", ["audio", "latents", "latents with latents"])
@pytest.mark.parametrize("budget", [{"frames_per_batch": 500}, {"frames_per_batch": 64_000}, {"seconds_per_batch": 5}])
def test_a_budget_counts_the_same_frames_whichever_fields_are_read(root, source, budget):
    remote, latents, names = SOURCES[source]
    options = {**latents, "batching": FrameBudget(**budget, batch_multiple=1), "batch_size": None}
    if source == "audio" and 500 in budget.values():
        pytest.skip("no sample of audio is so short")
    keys = [batch["keys"] for batch in batches(root, remote, **options)]
    for fields in choices(names):
        assert [batch["keys"] for batch in batches(root, remote, fields=fields, **options)] == keys
