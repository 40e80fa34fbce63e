"""A name means the same, and a mistake in it gives the same error, in both loaders and in every command."""

import json
import shutil
import warnings

import pytest

from headrace import Stream, StreamingDataset, cli, webdataset_loader
from headrace.checks.shard_check import Depth
from headrace.checks.verify import find_target, verify
from headrace.cli import commands, simulation
from headrace.errors import ConfigError, FormatError, HeadraceError, NoShardsError, NotAFileError, NotFoundError
from headrace.format.snapshots import read_snapshot
from headrace.locate import locate
from headrace.stores.storage import LocalStorage
from headrace.tools.inspection import inspect
from headrace.tools.tar_indexes import index_tars
from tests.streaming.corpus import clips, write_dataset
from tests.streaming.fault_server import fault_server
from tests.streaming.test_foreign import write_tar
from tests.tars import tar_of

JOB = ["--world-size", "1", "--batch-size", "1"]


def run(command, remote, *options):
    """Run a command as the command line does, without turning errors into text."""
    return commands.COMMANDS[command](cli.parser().parse_args([command, str(remote), *map(str, options)]))


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


def test_a_list_of_names_is_for_webdataset_loader_alone(named):
    several = [f"{named}/plain/train-0.tar", f"{named}/out"]
    assert webdataset_loader(several).num_samples == 11
    for dataset in (StreamingDataset, Stream):
        with pytest.raises(ConfigError, match=r"remote is \[.*\]: expected a path or URL"):
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


READERS = {
    "StreamingDataset": lambda remote: StreamingDataset(remote=remote),
    "StreamingDataset, of a split": lambda remote: StreamingDataset(remote=remote, split="train"),
    "webdataset_loader": webdataset_loader,
    "inspect": inspect,
    "verify": find_target,
    "index": lambda remote: index_tars(remote, num_threads=1),
}
OF_OUTPUTS = {
    "export": lambda remote: run("export", remote, "/nowhere"),
    "gc": lambda remote: run("gc", remote),
    "snapshot=": lambda remote: StreamingDataset(remote=remote, snapshot=3),
    "snapshot= of webdataset_loader": lambda remote: webdataset_loader(remote, snapshot=3),
    "latents=": lambda remote: StreamingDataset(remote=remote, latents=[remote]),
}

# name of the remote, files below the folder → expected words of the message
NOTHING = {
    "a missing folder": ("nowhere", {}, r"nowhere is not there \(relative names start at"),
    "a file": ("notes.txt", {"notes.txt": b"x"}, r"notes\.txt: it is a file, and neither a tar nor a sizes\.json"),
    "a Parquet file": ("a.parquet", {"a.parquet": b"x"}, r"is a file, .*a data set of Parquet files: .*migrating\.md"),
    "an empty folder": ("x", {"x/.keep": b""}, "it is empty: build the data set, or check the path"),
    "a folder of notes": ("x", {f"x/{n}.txt": b"" for n in "abcdefg"}, r"it holds a\.txt, .*, e\.txt and 2 more"),
    "LitData": ("x", {"x/index.json": b'{"chunks": []}', "x/chunk-0-0.bin": b""}, r"LitData .*migrating\.md"),
    "MDS": ("x", {"x/index.json": b'{"shards": []}', "x/shard.00000.mds": b""}, r"MosaicML .*migrating\.md"),
    "Arrow": ("x", {"x/data-0.arrow": b"", "x/state.json": b"{}"}, r"Hugging Face .*migrating\.md"),
    "Parquet": ("x", {"x/data/train-0.parquet": b""}, r"Parquet files .*migrating\.md"),
    "Lance": ("x.lance", {"x.lance/_versions/1.manifest": b""}, r"Lance .*migrating\.md"),
    "ArrayRecord": ("x", {"x/a.array_record": b""}, r"ArrayRecord .*migrating\.md"),
    "TFRecord": ("x", {"x/a.tfrecord": b""}, r"TFRecord .*migrating\.md"),
    "Zarr": ("x", {"x/.zarray": b"{}", "x/0.0": b""}, r"Zarr .*migrating\.md"),
    "recordings": ("x", {"x/a.wav": b"", "x/b.csv": b""}, r"recordings \(a\.wav\): .*build\.py NAME"),
    "folders of tars": ("x", {"x/a/0.tar": b"", "x/b/0.tar": b""}, r"folders of tars .*meant \(a, b\)"),
}


def write(folder, files):
    for name, blob in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(blob)


@pytest.mark.parametrize("door", {**READERS, **OF_OUTPUTS}.values(), ids={**READERS, **OF_OUTPUTS})
@pytest.mark.parametrize(("remote", "files", "words"), NOTHING.values(), ids=NOTHING)
def test_a_remote_without_shards_gives_the_same_error_everywhere(tmp_path, door, remote, files, words):
    write(tmp_path, files)
    with pytest.raises(NoShardsError, match=words) as caught:
        door(str(tmp_path / remote))
    assert str(caught.value).startswith(f"{tmp_path / remote}: ")
    assert isinstance(caught.value, NotFoundError)
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("door", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("remote", "kind", "words"),
    [
        ("tars/nothing-*.tar", NoShardsError, r"nothing-\*\.tar: no tars match; .*tars holds a-0\.tar, a-1\.tar"),
        ("nowhere/*.tar", NoShardsError, r"nowhere/\*\.tar: the folder .*nowhere is not there"),
        ("other/*.parquet", NoShardsError, r"no tars match; .*other is a data set of Parquet files"),
        ("tars/b-0.tar", NotFoundError, r"tars/b-0\.tar: the shard is not there"),
        ("tars/a-{0..2}.tar", NotFoundError, r"tars/a-2\.tar: the shard is not there"),
        ("nowhere/sizes.json", NotFoundError, r"sizes\.json: not found in .*nowhere"),
        ("lit/index.json", FormatError, r"lit/index\.json: expected .*LitData"),
    ],
)
def test_a_name_without_a_match_gives_the_same_error_everywhere(tmp_path, door, remote, kind, words):
    write(tmp_path, {"other/a.parquet": b"", "lit/index.json": b'{"chunks": []}', "tars/.keep": b""})
    for number in range(2):
        write_tar(tmp_path / f"tars/a-{number}.tar", clips(1, first=number))
    with pytest.raises(kind, match=words):
        door(f"{tmp_path}/{remote}")


def of_verify(remote):
    faults = verify(find_target(remote), Depth()).faults
    if faults:
        raise FormatError(f"{faults[0].where}: {faults[0].what}")


CONTENTS = {**READERS, "webdataset_loader": lambda remote: list(webdataset_loader(remote)), "verify": of_verify}
CONTENTS.pop("inspect")  # it opens no tar


@pytest.mark.parametrize("door", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("members", [{}, {"train": b"x"}, {".flac": b"x"}], ids=["nothing", "no dot", "no key"])
def test_tars_without_samples_give_the_same_error_everywhere(tmp_path, door, members):
    for name in ("train-0.tar", "train-1.tar"):
        (tmp_path / name).write_bytes(tar_of(members))
    words = rf"{tmp_path}/train-0\.tar: no sample in any of 2 shards \(this is the first\): a sample is neighbouring"
    with pytest.raises(FormatError, match=words):
        door(str(tmp_path))


@pytest.mark.parametrize("door", CONTENTS.values(), ids=CONTENTS)
def test_a_tar_with_scattered_samples_gives_an_error_with_its_full_name(tmp_path, door):
    (tmp_path / "train-0.tar").write_bytes(tar_of({"a.txt": b"", "b.txt": b"", "a.json": b"{}"}))
    words = r"train-0\.tar: the files of sample 'a' are not neighbours"
    if door is CONTENTS["index"]:
        assert words.replace("\\", "") in door(str(tmp_path))[0].fault
        return
    with pytest.raises(FormatError, match=rf"^{tmp_path}/.*{words}"):
        door(str(tmp_path))


@pytest.mark.parametrize("door", OF_OUTPUTS.values(), ids=OF_OUTPUTS)
def test_a_plain_webdataset_in_place_of_an_output_gives_the_same_error_everywhere(tmp_path, door):
    write_tar(tmp_path / "a.tar", clips(1))
    with pytest.raises(ConfigError, match=r"needs snapshots, and this is a plain WebDataset") as caught:
        door(str(tmp_path))
    assert not isinstance(caught.value, NotFoundError)


@pytest.mark.parametrize("door", [StreamingDataset, webdataset_loader], ids=["StreamingDataset", "webdataset_loader"])
def test_a_missing_split_or_snapshot_gives_the_same_error_in_both_loaders(tmp_path, door):
    write_dataset(tmp_path, {"train": clips(2)})

    def read(**arguments):
        where = {"remote": tmp_path / "audio"} if door is StreamingDataset else {"urls": tmp_path / "audio"}
        door(**where, **arguments)

    with pytest.raises(ConfigError, match=r"audio, snapshot 1: no split 'dev'; it has train"):
        read(split="dev")
    with pytest.raises(NotFoundError, match=r"audio: snapshot 7 is not there \(there are \[1\]\)"):
        read(snapshot=7)


@pytest.mark.parametrize("command", ["inspect", "verify", "index", "export", "gc", "simulate"])
def test_every_command_gives_the_same_error_and_exits_with_1(tmp_path, capsys, command):
    write(tmp_path, {"x/data/train-0.parquet": b""})
    extra = {"export": [str(tmp_path / "out")], "simulate": ["--world-size", "1", "--batch-size", "1"]}
    assert cli.main([command, str(tmp_path / "x"), *extra.get(command, [])]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"headrace {command}: {tmp_path}/x: no snapshot ")
    assert "it is a data set of Parquet files (data/train-0.parquet)" in said


TEXTS = {
    "Shar": ("recording.000000.tar", "cuts.000000.jsonl.gz"),
    "Shar, not packed": ("recording.000000.tar", "cuts.000000.jsonl"),
    "NeMo": ("audio_0.tar", "tarred_audio_manifest.json"),
}


@pytest.mark.parametrize("door", [door for name, door in READERS.items() if "split" not in name])
@pytest.mark.parametrize(("tar", "texts"), TEXTS.values(), ids=TEXTS)
def test_unread_text_files_beside_tars_are_reported_everywhere(tmp_path, door, tar, texts):
    write_tar(tmp_path / tar, clips(2))
    (tmp_path / texts).write_bytes(b"{}\n")
    for remote in (tmp_path, tmp_path / tar, tmp_path / "*.tar", f"{tmp_path}/{{{tar},{tar}}}"):
        with pytest.warns(UserWarning, match=rf"/{texts} holds .*texts in it are not read.*docs/migrating\.md"):
            door(str(remote))


def test_a_folder_of_ordinary_tars_needs_no_further_requests(tmp_path, monkeypatch):
    for number in range(3):
        write_tar(tmp_path / f"train-{number}.tar", clips(2, first=2 * number))
    asked = []
    for name in ("list", "exists", "open", "read"):
        monkeypatch.setattr(LocalStorage, name, noting(asked, name, getattr(LocalStorage, name)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(locate(str(tmp_path)).tars.names) == 3
        assert asked == ["list"] * 3  # its snapshots, those of its audio/, and its tars
        asked.clear()
        assert len(locate(f"{tmp_path}/train-{{0..2}}.tar").tars.names) == 3
        assert asked == ["exists"] * 3 + ["list"]


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
