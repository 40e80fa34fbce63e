"""The newest snapshot of a stream that everything joined to it has, too."""

from types import SimpleNamespace

import pytest

from headrace.errors import ConfigError, NotFoundError
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.locate.outputs import ITSELF, ShardFolder
from headrace.stores.storage import LocalStorage
from headrace.streaming.shards.matching import COLUMNS, LATENTS, Companion, audio_of, fitting_snapshots, newest_with_all
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Three audio snapshots: the first two have latents, the first has columns, too."""
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": clips(2)}, latents=True)
    write_columns(folder, "titles", {"title": ("string", str)})
    write_dataset(folder, {"train": clips(3)}, latents=True)
    write_dataset(folder, {"train": clips(4)})
    return folder


def folder_of(output, name, numbers):
    return ShardFolder(ITSELF, LocalStorage(output / name), numbers)


@pytest.fixture
def audio(output):
    return folder_of(output, "audio", (1, 2, 3))


@pytest.fixture
def latents(output):
    return Companion("crepe", LATENTS, folder_of(output, "latents/crepe", (1, 2)))


@pytest.fixture
def columns(output):
    return Companion("titles", COLUMNS, folder_of(output, "columns/titles", (1,)))


@pytest.mark.medium
def test_the_newest_snapshot_is_the_one_that_all_companions_have(audio, latents, columns):
    for companions, expected in (([], 3), ([latents], 2), ([latents, columns], 1)):
        found, fingerprint = newest_with_all(audio, "out", None, companions)
        assert (found.number, fingerprint) == (expected, audio_of(found.snapshot))
    assert [found.number for found in fitting_snapshots(audio, None, [latents])] == [2, 1]


def test_a_snapshot_that_a_companion_lacks_is_an_error_that_says_which_it_has(audio, latents, columns):
    with pytest.raises(NotFoundError, match=r"out: snapshot 3 has no latents in crepe: .* those of snapshots 1, 2"):
        newest_with_all(audio, "out", 3, [latents])
    with pytest.raises(NotFoundError, match=r"snapshot 2 has no columns in titles: titles has those of snapshot 1\."):
        newest_with_all(audio, "out", 2, [latents, columns])


def test_companions_of_other_audio_are_said_to_be_so(audio, output):
    stray = SimpleNamespace(named="stray", what=LATENTS, offers={"another": None})
    with pytest.raises(NotFoundError, match=r"no snapshot of .* latents in stray: stray belongs to other audio"):
        newest_with_all(audio, "out", None, [stray])
    itself = Companion("audio", LATENTS, audio)
    with pytest.raises(NotFoundError, match="audio holds no latents but audio: name a folder latents/NAME"):
        newest_with_all(audio, "out", None, [itself])


def test_columns_in_the_place_of_latents_are_an_error_that_names_the_argument(output):
    wrong = Companion("titles", LATENTS, folder_of(output, "columns/titles", (1,)))
    with pytest.raises(ConfigError, match=r"titles: holds columns, not latents: pass it as columns=\[…\]"):
        _ = wrong.offers


def test_latents_belong_to_the_audio_that_they_name(output):
    audio = read_snapshot(LocalStorage(output / "audio"), 2).snapshot
    assert audio_of(read_snapshot(LocalStorage(output / "latents/crepe"), 2).snapshot) == audio.fingerprint
    assert audio_of(audio) == audio.fingerprint
