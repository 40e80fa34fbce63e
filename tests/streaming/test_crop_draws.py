"""Crops that are too quiet are drawn again, as a pure function of the position."""

import io
import math

import numpy as np
import pytest
import soundfile as sf

from headrace import StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError
from tests.support.tars import tar_of

RATE_HZ, FRAMES, LOUD = 8000, 16_000, slice(8_000, 10_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixteen recordings: an eighth of each is loud; one is silent, one is short."""
    folder, members = tmp_path_factory.mktemp("draws"), {}
    for number in range(16):
        samples = 0.001 * np.random.default_rng(number).standard_normal(400 if number == 1 else FRAMES)
        if number > 1:
            samples[LOUD] += 0.5 * np.sin(np.arange(2_000))
        file = io.BytesIO()
        sf.write(file, samples * (number > 0), RATE_HZ, format="FLAC")
        members[f"{number:02d}.flac"] = file.getvalue()
    (folder / "a.tar").write_bytes(tar_of(members))
    return folder


def rows(folder, world_size=1, **options):
    """Key → first frame and level in dB of each row, over all ranks."""
    found = {}
    for rank in range(world_size):
        defaults = {"batch_size": 4 // world_size, "shuffle": True, "crop_frames": 500, "output": "numpy"}
        world = World(rank, world_size)
        made = StreamingDataset(remote=str(folder), local=str(folder / "c"), world=world, **(defaults | options))
        for batch in StreamingDataLoader(made):
            for key, first, audio, count in zip(
                *(batch[name] for name in ("keys", "frame_offset", "audio", "num_frames")), strict=True
            ):
                power = float(np.mean(np.square(audio[:, :count], dtype=np.float64))) if count else 0
                found[key] = int(first), 10 * math.log10(power) if power else -math.inf
    return found


@pytest.mark.medium
def test_a_quiet_crop_is_drawn_again_until_it_is_loud_enough(folder):
    before, after = rows(folder), rows(folder, crop_min_dbfs=-20, crop_draws=1000)
    quiet = {key for key, (_, level) in before.items() if level < -20}
    assert len(quiet) > 8
    for key, (first, level) in after.items():
        if key in {"00", "01"}:
            continue
        assert level >= -20
        assert (first != before[key][0]) == (key in quiet)


def test_the_loudest_of_all_draws_is_taken_where_none_is_loud_enough(folder):
    one, all_draws = rows(folder, crop_min_dbfs=0, crop_draws=1), rows(folder, crop_min_dbfs=0, crop_draws=6)
    assert one == rows(folder)
    assert all(all_draws[key][1] >= level for key, (_, level) in one.items())
    assert any(all_draws[key][1] > level + 10 for key, (_, level) in one.items())


def test_draws_are_the_same_on_every_world_and_in_every_run(folder):
    alone = rows(folder, crop_min_dbfs=-20)
    assert rows(folder, 2, crop_min_dbfs=-20) == alone == rows(folder, 4, crop_min_dbfs=-20)


def test_what_is_shorter_than_the_crop_stays_whole(folder):
    assert rows(folder, crop_min_dbfs=-20)["01"][0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crop_frames": None, "crop_min_dbfs": -30}, "crop_min_dbfs=-30 is given without crop_seconds or crop_frames"),
        ({"crop_draws": 0}, "crop_draws is 0"),
        ({"crop_min_dbfs": "loud"}, "crop_min_dbfs is 'loud'"),
        ({"crop_min_dbfs": -30, "fields": ["metadata"]}, "crop_min_dbfs needs the audio"),
    ],
)
def test_settings_that_make_no_sense_are_errors(folder, options, message):
    with pytest.raises(ConfigError, match=message):
        rows(folder, **options)
