"""The facts that `headrace inspect` shows."""

import pytest

from headrace.errors import NotFoundError
from headrace.upkeep import inspection
from headrace.upkeep.inspection import inspect
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view

SAMPLES = [*clips(7), *clips(2, first=7, num_channels=2)]


@pytest.fixture
def folder(tmp_path):
    audio = write_dataset(tmp_path, {"train": SAMPLES})
    write_columns(tmp_path, "mine", {spec("n", "int"): lambda clip: clip.number}, {"train": SAMPLES}, audio)
    write_view(tmp_path, "odd", lambda key: int(key[-1]) % 2)
    return tmp_path


def test_an_output_has_parts_and_views(folder):
    found = inspect(str(folder))
    assert [part.name for part in found.parts] == ["audio", "columns/mine"]
    assert [(view.name, view.numbers) for view in found.views] == [("views/odd", (1,))]
    assert (found.tars, found.catalog) == (None, None)
    audio, columns = found.parts
    assert audio.splits["train"].num_samples == 9
    assert [one.name for one in columns.columns] == ["n"]


def test_lengths_and_channels_are_counted_from_the_indexes(folder):
    lengths = inspect(str(folder)).parts[0].lengths
    frames = sorted(clip.num_frames for clip in SAMPLES)
    assert lengths.frames == (frames[0], frames[4], frames[-1])
    assert lengths.seconds == tuple(count / 8000 for count in lengths.frames)
    assert (lengths.channels, lengths.rates_hz, lengths.num_indexes) == ({1: 7, 2: 2}, {8000: 9}, 2)
    assert lengths.fields == ("flac", "json")


def test_shards_that_the_newest_snapshot_does_not_name_are_counted(folder):
    (folder / "audio/train_0000_000009-1a2b3c4d5e6f.tar").write_bytes(b"x" * 70)
    assert inspect(str(folder)).parts[0].unnamed == (1, 70)


def test_lengths_of_latents_are_frames_and_not_seconds(tmp_path):
    samples = clips(4)
    write_dataset(tmp_path, {"train": samples}, latents=True)
    latents = inspect(str(tmp_path)).parts[1]
    counts = sorted(len(clip.hidden()) for clip in samples)
    assert latents.name == "latents/crepe"
    assert (latents.lengths.seconds, latents.lengths.frames[::2]) == ((), (counts[0], counts[-1]))


def test_tars_of_others_are_listed_with_what_is_known(folder, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    first, second = sorted((folder / "audio").glob("*.tar"))
    (plain / "a.tar").write_bytes(first.read_bytes())
    (plain / "b.tar").write_bytes(second.read_bytes())
    (plain / "sizes.json").write_text('{"a.tar": 5}')
    shards = inspect(str(plain)).tars.shards
    assert [(name.rpartition("/")[2], count) for name, count, _ in shards] == [("a.tar", 5), ("b.tar", None)]
    assert shards[0][2] == first.stat().st_size


def test_of_many_shards_some_indexes_at_equal_distances_are_read(folder, monkeypatch):
    monkeypatch.setattr(inspection, "_MAX_INDEXES", 1)
    assert inspect(str(folder)).parts[0].lengths.num_indexes == 1
    assert list(inspection._spread(1)) == [0]


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(NotFoundError):
        inspect(str(tmp_path / "missing"))
