"""A stream is opened at one snapshot, with what is joined to it."""

import pytest

from headrace.errors import ConfigError, NotFoundError
from headrace.format.tars.member_names import KeyAt
from headrace.streaming.selection import Pins, Selection
from headrace.streaming.shards.remote import StreamRequest, open_remote
from headrace.streaming.shards.view_shards import ViewShards
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset, write_latents
from tests.support.view_fixtures import write_view


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Two audio snapshots; all else belongs to the first."""
    folder = tmp_path_factory.mktemp("output")
    samples = {"train": clips(6), "test": clips(2, first=90)}
    audio = write_dataset(folder, samples, latents=True)
    write_latents(folder, samples, audio, name="mel")
    write_columns(folder, "titles", {"caption": ("string", str)})
    write_view(folder, "half", lambda key: int(key[4:]) % 2)
    write_dataset(folder, {"train": clips(7), "test": clips(2, first=90)})
    return folder


def names(found):
    """The fields with the latents of each folder."""
    return [[field.values for field in fields] for fields in found.outputs]


def opened(output, part="", pins=None, index_folder=None, **selected):
    return open_remote(StreamRequest(f"{output}{part}", Selection(**selected), pins or Pins(), index_folder))


@pytest.mark.parametrize(
    ("asked", "snapshot", "num_samples"),
    [
        ({}, 2, 9),
        ({"split": "train"}, 2, 7),
        ({"snapshot": 1}, 1, 8),
        ({"latents": ("{}/latents/crepe",)}, 1, 8),
        ({"latents": ("mel",)}, 1, 8),
        ({"view": "half"}, 1, 4),
        ({"columns": ("titles",)}, 1, 8),
    ],
)
def test_audio_is_opened_at_the_newest_snapshot_that_has_what_is_asked_for(output, asked, snapshot, num_samples):
    if "latents" in asked:
        asked = {"latents": tuple(name.format(output) for name in asked["latents"])}
    for part in ("", "/audio"):
        found = opened(output, part, **asked)
        assert (found.primary.identity.snapshot, found.primary.num_samples) == (snapshot, num_samples)


def test_latents_of_several_folders_are_told_apart_by_their_names(output):
    both = tuple(f"{output}/latents/{name}" for name in ("crepe", "mel"))
    assert names(opened(output, latents=both[:1])) == [["encoder_hidden"], ["encoder_hidden"]]
    assert names(opened(output, latents=both)) == [["encoder_hidden"], ["encoder_hidden_crepe"], ["encoder_hidden_mel"]]
    assert names(opened(output, "/latents/crepe", latents=both[1:])) == [
        ["encoder_hidden_crepe"],
        ["encoder_hidden_mel"],
    ]
    with pytest.raises(ConfigError, match="two folders of latents are called 'crepe'"):
        opened(output, latents=(both[0], both[0] + "/"))
    chosen = opened(output, latents=both, fields=("audio", "encoder_hidden_mel"))
    read = [field.values for field in chosen.outputs_that_are_read]
    assert (read, chosen.has_metadata) == (["encoder_hidden", "encoder_hidden_mel"], False)


def test_pinned_snapshots_are_opened_and_latents_have_fingerprints_of_their_own(output):
    alone = opened(output, snapshot=1)
    joined = opened(output, snapshot=1, latents=(f"{output}/latents/mel",), pins=Pins(of_latents=(1,)))
    assert joined.pins.of_latents == (1,)
    assert (len(joined.latents_fingerprints), alone.latents_fingerprints) == (1, ())
    assert joined.primary.identity == alone.primary.identity
    view = opened(output, view="half")
    assert isinstance(view.primary.shards, ViewShards)
    assert (view.pins.of_view, view.pins.of_where) == (1, ())


@pytest.mark.parametrize(
    ("part", "asked", "error", "message"),
    [
        ("", {"snapshot": 9}, NotFoundError, "snapshot 9 is not there"),
        ("", {"split": "val"}, ConfigError, "no split 'val'"),
        ("", {"key_at": KeyAt.LAST_DOT}, ConfigError, "key_at='last_dot' is for plain tars"),
        ("", {"view": "absent"}, NotFoundError, "there are half"),
        ("/columns/titles", {}, ConfigError, "a set of columns, which has no samples of its own"),
        ("/audio/*.tar", {"view": "half"}, ConfigError, "view='half' needs a folder with snapshots"),
    ],
)
def test_what_cannot_be_opened_is_an_error_that_says_why(output, part, asked, error, message):
    with pytest.raises(error, match=message):
        opened(output, part, **asked)


def test_plain_tars_are_opened_without_a_snapshot(output, tmp_path):
    (tar,) = (output / "audio").glob("test_*.tar")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.tar").write_bytes(tar.read_bytes())
    found = opened(tmp_path / "plain", index_folder=tmp_path / "indexes")
    assert (found.primary.identity.snapshot, found.primary.num_samples) == (None, 2)
