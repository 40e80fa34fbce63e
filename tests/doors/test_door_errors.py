"""Names that lead nowhere, or to something else, give equal errors at every door."""

import pytest

from headrace import StreamingDataset, cli, webdataset_loader
from headrace.errors import ConfigError, FormatError, NoShardsError, NotFoundError
from headrace.upkeep.inspection import inspect
from headrace.upkeep.tar_indexes import index_tars
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.streaming.shards.test_foreign import write_tar
from tests.support.doors import run, write
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.tars import tar_of

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
