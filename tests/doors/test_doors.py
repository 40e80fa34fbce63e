"""A name means the same, and a mistake in it gives the same error, in both loaders and in every command."""

import json
import shutil
import warnings

import pytest

from headrace import Stream, StreamingDataset, cli, webdataset_loader
from headrace.cli import simulation
from headrace.errors import ConfigError, FormatError, HeadraceError, NoShardsError, NotAFileError, NotFoundError
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.locate import locate
from headrace.stores.storage import LocalStorage
from headrace.upkeep.inspection import inspect
from headrace.upkeep.tar_indexes import index_tars
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.streaming.shards.test_foreign import write_tar
from tests.support.doors import JOB, run, write
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import fault_server


def exported(remote, target):
    assert run("export", remote, target) == 0
    return sum(json.loads((target / "sizes.json").read_text()).values())


def counted(facts):
    """Samples of everything that `inspect` found."""
    if facts.tars is not None:
        return sum(count for _, count, _ in facts.tars.shards)
    return sum(totals.num_samples for part in facts.parts for totals in part.splits.values())


def verified(remote):
    verdict = verify(find_target(remote), Depth())
    assert not verdict.faults
    return verdict.num_samples


LOADERS = {
    "StreamingDataset": lambda remote, _: StreamingDataset(remote=remote).num_samples,
    "Stream": lambda remote, _: StreamingDataset(streams=[Stream(remote=remote)]).num_samples,
    "webdataset_loader": lambda remote, _: webdataset_loader(remote).num_samples,
    "simulate": lambda remote, _: (
        simulation.simulate(cli.parser().parse_args(["simulate", remote, *JOB]), lambda: None).num_samples
    ),
}
WHOLE = {"inspect": lambda remote, _: counted(inspect(remote)), "verify": lambda remote, _: verified(remote)}
DOORS = {
    **LOADERS,
    **WHOLE,
    "index": lambda remote, _: sum(tar.num_samples for tar in index_tars(remote, num_threads=1)),
    "export": lambda remote, folder: exported(remote, folder / "exported"),
    "gc": lambda remote, _: run("gc", remote, "--dry-run"),
}

BUILT = (ConfigError, "is in a data set that Headrace built")
PLAIN = (ConfigError, "needs snapshots, and this is a plain WebDataset")
PICKED = (ConfigError, r"needs a folder with snapshots: name .*out/audio itself")
ONE_FOLDER = (ConfigError, "is one shard folder of an output; name the output itself")
NO_AUDIO = (NoShardsError, r"an output without audio: name one of its folders of latents \(.*late/latents/crepe\)")
MISSING = (NoShardsError, r"nowhere is not there \(relative names start at")
NO_SHARD = (NotFoundError, r"x-0\.tar: the shard is not there")
NO_MATCH = (NoShardsError, r"x-\*\.tar: no tars match; .*plain holds sizes\.json, train-0\.tar, train-1\.tar")
EMPTY = (NoShardsError, "no snapshot and no shards .* there; it is empty")
LITDATA = (NoShardsError, r"it is a LitData data set \(index\.json\)")
A_FILE = (NoShardsError, r"notes\.txt: it is a file, and neither a tar nor a sizes\.json")
NO_FOLDER = (NoShardsError, r"lost: it is a broken link \(to .*gone\); name a folder of tars")
NO_TAR = (NotAFileError, r"lost\.tar: is a broken link \(to .*gone\), not a tar")
FOLDERS = (NoShardsError, r"a folder of folders of tars .*: name the one that is meant \(crepe\)")

# What a name means: samples for the loaders, for inspect and verify, for index, for export; and 0 or an error of gc.
# One answer alone is that of every door.
FORMS = {
    "out": (9, 18, BUILT, 9, 0),  # an output: the loaders and export take its audio
    "out/": (9, 18, BUILT, 9, 0),
    "out/audio": (9, 9, BUILT, 9, ONE_FOLDER),
    "out/latents/crepe": (9, 9, BUILT, 9, ONE_FOLDER),
    "out/latents": FOLDERS,
    "out/audio/*.tar": (9, 9, BUILT, PICKED, PICKED),
    "out/audio/train_*.tar": (6, 6, BUILT, PICKED, PICKED),
    "out/audio/sizes.json": (9, 9, BUILT, PICKED, PICKED),
    "out/*.tar": (NoShardsError, r"out/\*\.tar: no tars match; name its folder of shards: .*out/audio"),
    "late": (NO_AUDIO, 9, BUILT, NO_AUDIO, 0),  # an output of which only the latents were copied
    "mixed": (9, 9, BUILT, 9, 0),  # an output that somebody put tars into
    "plain": (4, 4, 4, PLAIN, PLAIN),
    "plain/": (4, 4, 4, PLAIN, PLAIN),
    "plain/sizes.json": (4, 4, 4, PLAIN, PLAIN),
    "plain/*.tar": (4, 4, 4, PLAIN, PLAIN),
    "plain/train-{0..1}.tar": (4, 4, 4, PLAIN, PLAIN),
    "plain/train-0.tar": (2, 2, 2, PLAIN, PLAIN),
    "p[l]ain/*.tar": (4, 4, 4, PLAIN, PLAIN),
    "plain/x-0.tar": NO_SHARD,
    "plain/train-0.tar{,.x-0.tar}": (NotFoundError, r"train-0\.tar\.x-0\.tar: the shard is not there"),
    "plain/x-*.tar": NO_MATCH,
    "nowhere": MISSING,
    "nowhere/*.tar": MISSING,
    "nowhere/sizes.json": (NotFoundError, r"sizes\.json: not found in .*nowhere"),
    "empty": EMPTY,
    "litdata": LITDATA,
    "litdata/index.json": (FormatError, r"litdata/index\.json: expected .*LitData"),
    "notes.txt": A_FILE,
    "lost": NO_FOLDER,
    "lost.tar": NO_TAR,
    "links": NO_TAR,
    "links/*.tar": NO_TAR,
    "unbuilt": (NoShardsError, r"an output of Headrace without a snapshot .*build it: build\.py NAME"),
}
OF_DOOR = dict(zip(DOORS, (0, 0, 0, 0, 1, 1, 2, 3, 4), strict=True))


def answer(form, door):
    row = FORMS[form]
    return row[OF_DOOR[door]] if len(row) == 5 else row


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A folder with everything that `FORMS` names."""
    folder = tmp_path_factory.mktemp("named")
    write_dataset(folder / "out", {"train": clips(6), "test": clips(3, first=50)}, per_shard=3, latents=True)
    shutil.copytree(folder / "out/latents", folder / "late/latents")
    shutil.copytree(folder / "out/audio", folder / "mixed/audio")
    write(folder, {"plain/sizes.json": b'{"train-0.tar": 2, "train-1.tar": 2}', "notes.txt": b"x"})
    write(folder, {"litdata/index.json": b'{"chunks": []}', "litdata/chunk-0-0.bin": b"", "empty/.keep": b""})
    write(folder, {"links/.keep": b"", "unbuilt/catalog/catalog.json": b"{}"})
    for tar in ("plain/train-0.tar", "plain/train-1.tar", "mixed/extra.tar"):
        write_tar(folder / tar, clips(2, first=2 * ("1" in tar)))
    for link in ("lost", "lost.tar", "links/lost.tar"):
        (folder / link).symlink_to(folder / "gone")
    return folder


def check(door, remote, wanted, folder):
    if isinstance(wanted, int):
        assert DOORS[door](remote, folder) == wanted
        return
    kind, words = wanted
    with pytest.raises(kind, match=words) as caught:
        DOORS[door](remote, folder)
    assert type(caught.value) is kind


@pytest.mark.medium
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", FORMS)
def test_a_name_means_the_same_at_every_door(named, tmp_path, form, door):
    if door == "index":  # it writes beside the tars
        named = shutil.copytree(named, tmp_path / "named", symlinks=True)
    check(door, f"{named}/{form}", answer(form, door), tmp_path)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "index"])
@pytest.mark.parametrize("form", ["out", "out/audio", "late", "plain", "plain/*.tar", "plain/sizes.json", "nowhere"])
def test_a_name_means_the_same_as_a_url(named, tmp_path, form, door):
    check(door, f"file://{named}/{form}", answer(form, door), tmp_path)


IN_STORE = {"nowhere": EMPTY, "nowhere/*.tar": (NoShardsError, r"no tars match; .* is empty")}


@pytest.mark.parametrize("door", [door for door in DOORS if door != "index"])
@pytest.mark.parametrize(
    "form", ["out", "out/audio", "late", "plain", "plain/*.tar", "plain/x-0.tar", "litdata", *IN_STORE]
)
def test_a_name_means_the_same_in_a_store(named, tmp_path, monkeypatch, form, door):
    with fault_server(named) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        check(door, f"{server.uri}/{form}", IN_STORE.get(form) or answer(form, door), tmp_path)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("remote", "words"),
    [
        ("", r"(remote|path|urls\[0\]) is '': expected a path or URL"),
        ("ftp://host/set", "unknown storage scheme 'ftp'"),
        ("s3:/bucket/set", "a URL has two slashes after its scheme: s3://bucket/set"),
    ],
)
def test_a_name_that_is_no_name_is_one_error_at_every_door(tmp_path, door, remote, words):
    check(door, remote, (ConfigError, words), tmp_path)


def test_a_list_names_tars_and_other_places_in_it_are_for_webdataset_loader_alone(named):
    several = [f"{named}/plain/train-0.tar", f"{named}/out"]
    assert webdataset_loader(several).num_samples == 11
    for dataset in (StreamingDataset, Stream):
        with pytest.raises(ConfigError, match=r"in a list: expected the path or URL of a tar"):
            dataset(remote=several)
    assert StreamingDataset(streams=[Stream(remote=name) for name in several]).num_samples == 11


def test_a_file_that_is_not_a_tar_is_found_when_it_is_read(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"not a tar, though it is called one")
    for read in (LOADERS["StreamingDataset"], LOADERS["Stream"], LOADERS["simulate"]):
        with pytest.raises(FormatError, match=r"a\.tar: not a readable tar"):
            read(f"{tmp_path}/a.tar", None)
    with pytest.raises(FormatError, match=r"a\.tar: cannot be read as a WebDataset"):
        list(webdataset_loader(f"{tmp_path}/a.tar"))
    assert verify(find_target(f"{tmp_path}/a.tar"), Depth()).faults[0].where == f"{tmp_path}/a.tar"
    assert "not a readable tar" in index_tars(f"{tmp_path}/a.tar", num_threads=1)[0].fault


@pytest.mark.parametrize("latents", ["out", "late", "out/audio", "plain", "out/latents/mel", "out/latents"])
def test_latents_are_named_by_their_own_folder(named, latents):
    words = {
        "out": "holds no latents but audio: name a folder latents/NAME",
        "out/audio": "holds no latents but audio: name a folder latents/NAME",
        "late": r"name one of its folders of latents \(.*late/latents/crepe\)",
        "plain": "a folder of latents needs snapshots, and this is a plain WebDataset",
        "out/latents/mel": "mel is not there",
        "out/latents": r"name the one that is meant \(crepe\)",
    }
    with pytest.raises((ConfigError, NotFoundError), match=words[latents]):
        StreamingDataset(remote=named / "out", latents=[named / latents])


def test_a_folder_of_ordinary_tars_needs_no_further_requests(tmp_path, monkeypatch):
    for number in range(3):
        write_tar(tmp_path / f"train-{number}.tar", clips(2, first=2 * number))
    asked = []
    for name in ("list", "exists", "open", "read"):
        monkeypatch.setattr(LocalStorage, name, noting(asked, name, getattr(LocalStorage, name)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(locate(str(tmp_path)).tars.names) == 3
        assert asked == ["list"] * 3 + ["read"]  # snapshots, those of audio/, and tars; whether an export is under way
        asked.clear()
        assert len(locate(f"{tmp_path}/train-{{0..2}}.tar").tars.names) == 3
        assert asked == ["exists"] * 4 + ["list", "read"]  # the pattern may be a name as it is spelled


def test_opening_an_output_asks_for_each_thing_once(named, monkeypatch):
    num_parts = len(read_snapshot(LocalStorage(named / "out/audio")).snapshot.parts)
    asked = []
    for name in ("list", "exists", "open", "read"):
        monkeypatch.setattr(LocalStorage, name, noting(asked, name, getattr(LocalStorage, name)))
    for form, listings in (("out/audio", 1), ("out", 2)):  # of an output its own snapshots are looked for first
        StreamingDataset(remote=named / form)
        assert asked == ["list"] * listings + ["read"] * (1 + num_parts)  # the snapshot and its table of shards
        asked.clear()


def noting(asked, name, method):
    def noted(*arguments):
        asked.append(name)
        return method(*arguments)

    return noted


def test_errors_about_missing_data_are_headrace_errors_and_builtin_errors():
    assert issubclass(NoShardsError, HeadraceError)
    assert issubclass(NoShardsError, FileNotFoundError)
    assert issubclass(NoShardsError, ValueError)
