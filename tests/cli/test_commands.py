"""The `headrace` command as a user runs it: printed text and exit codes, never a traceback."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from headrace import cli
from headrace.exports.mark import MARK
from headrace.format.indexes.index import index_name
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.format.versioned_json import versioned_bytes
from headrace.stores.storage import LocalStorage
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.plain.test_loader import members_of, write_tar
from tests.support.builds import Project
from tests.support.commands import runner
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A valid output with rejects and latents."""
    project = Project(tmp_path_factory.mktemp("built"))
    for number in range(12):
        project.put(f"clip{number:02d}.wav", num_frames=300 + number)
    (project.folder / "source" / "notes.txt").write_text("not audio")
    project.build()
    return project.folder / "output"


@pytest.fixture
def output(built, tmp_path):
    """A copy of the output that a test may damage."""
    return shutil.copytree(built, tmp_path / "output")


@pytest.fixture
def tars(tmp_path):
    folder = tmp_path / "tars"
    folder.mkdir()
    for number in range(3):
        write_tar(folder / f"train-{number:03d}.tar", members_of(clips(4, first=number * 4)))
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


def shards_of(output):
    audio = LocalStorage(output / "audio")
    return read_table(audio, read_snapshot(audio).snapshot).names()


# The command itself


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["verify"], ["verify", "x", "--jobs", "0"], ["gc", "x", "--keep", "no"]]
)
def test_invalid_arguments_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: headrace" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["inspect", "verify", "index", "export", "gc"])
def test_a_missing_path_is_reported_in_one_line(run, tmp_path, command):
    more = [tmp_path / "target"] if command == "export" else []
    code, out, err = run(command, tmp_path / "absent", *more)
    assert code == 1
    assert out == ""
    assert err.startswith(f"headrace {command}: ")
    assert str(tmp_path / "absent") in err


@pytest.mark.medium
def test_a_closed_pipe_is_not_an_error(built):
    command = f"{sys.executable} -m headrace.cli inspect {built} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


# inspect


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("command", ["inspect OUT", "verify OUT", "find clip00 OUT", "gc OUT"])
def test_standard_output_on_a_full_disk_is_an_error_of_one_line(output, monkeypatch, capfd, command, form):
    arguments = [*command.replace("OUT", str(output)).split(), *form]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(arguments) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"headrace {arguments[0]}: ")
    assert line.endswith("cannot be written: No space left on device")


def test_inspect_shows_splits_snapshots_lengths_and_rejected_files(run, built):
    code, out, _ = run("inspect", built)
    assert code == 0
    for text in (
        "audio · snapshot 1",
        "train",
        "test",
        "8000 Hz: 12",
        "flac, json",
        "recordings",
        "notes.txt",
        "unsupported",
    ):
        assert text in out, text
    totals = read_snapshot(LocalStorage(built / "audio")).snapshot
    assert f"{totals.num_samples}" in out


@pytest.mark.medium
def test_inspect_shows_latents_with_their_audio_snapshot_and_older_shards(run, tmp_path):
    write_dataset(tmp_path, {"train": clips(8)}, latents=True)
    write_dataset(tmp_path, {"train": clips(12)}, latents=True)
    _, out, _ = run("inspect", tmp_path)
    assert "latents/crepe · snapshot 2" in out
    assert "audio snapshot 2" in out
    assert "1 other shards" in out
    _, out, _ = run("inspect", tmp_path / "latents" / "crepe")
    assert ". · snapshot 2" in out


def test_inspect_shows_foreign_tars(run, tars):
    _, out, _ = run("inspect", tars)
    assert "train-002.tar" in out
    assert "headrace index counts them" in out
    run("index", tars)
    _, out, _ = run("inspect", f"{tars}/*.tar")
    assert "12" in out
    assert "8000 Hz: 12" in out


# verify


def test_verify_reads_all_of_a_valid_output_and_reports_it(run, built):
    code, out, _ = run("verify", built, "--jobs", 2, "--sample", 3)
    assert code == 0
    assert "12 samples" in out
    assert "no faults" in out


def flip(path, place):
    blob = bytearray(path.read_bytes())
    blob[place] ^= 1
    path.write_bytes(bytes(blob))


def cut(path):
    path.write_bytes(path.read_bytes()[:-700])


DAMAGES = {
    "a flipped byte in a payload": (lambda tar, idx: flip(tar, 700), "digest"),
    "a flipped byte in a header": (lambda tar, idx: flip(tar, 2), "digest"),
    "a tar cut off": (lambda tar, idx: cut(tar), "bytes are there"),
    "a missing tar": (lambda tar, idx: tar.unlink(), "not found"),
    "a missing index": (lambda tar, idx: idx.unlink(), ".idx is missing"),
    "a cut index": (lambda tar, idx: cut(idx), ".idx"),
    "a changed index": (lambda tar, idx: flip(idx, -100), ".idx"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_finds_damage_and_names_the_shard(run, output, damage):
    name = shards_of(output)[1]
    act, said = DAMAGES[damage]
    act(output / "audio" / name, output / "audio" / index_name(name))
    code, out, _ = run("verify", output)
    assert code == 1
    assert name in out
    assert said in out


@pytest.mark.medium
def test_every_flipped_bit_of_a_shard_is_found(output):
    name = shards_of(output)[0]
    path = output / "audio" / name
    whole = path.read_bytes()
    for place in range(0, len(whole), 211):
        flip(path, place)
        assert verify(find_target(str(output)), Depth()).faults, place
        path.write_bytes(whole)
    assert not verify(find_target(str(output)), Depth()).faults


def test_names_are_printed_as_they_are(run, built, tmp_path):
    """Neither a style nor a picture: rich would read `[/b]` as the end of bold text, and `:x:` as a cross."""
    output = shutil.copytree(built, tmp_path / "old[/b]:x:")
    for arguments in (["verify", "--fraction", "1/2"], ["export"]):
        target = [tmp_path / "new[/b]:x:"] if arguments == ["export"] else []
        code, out, _ = run(*arguments, output, *target)
        assert code == 0
        assert "[/b]:x:" in out


def test_verify_finds_wrong_shard_names(run, output):
    audio = output / "audio"
    sizes = json.loads((audio / "sizes.json").read_text())
    (audio / "sizes.json").write_text(json.dumps({**sizes, shards_of(output)[0]: 99, "surplus.tar": 1}))
    code, out, _ = run("verify", output)
    assert (code, out.count("sizes.json:")) == (1, 2)
    for content in ("[]", "{", ""):
        (audio / "sizes.json").write_text(content)
        assert run("verify", output)[0] == 1
    (audio / "sizes.json").unlink()
    code, out, _ = run("verify", output)
    assert (code, "missing" in out) == (1, True)


def test_verify_finds_damaged_snapshots_and_manifests(run, output):
    audio = output / "audio"
    (manifest,) = (audio / "manifests" / "train-0000").glob("*.json")
    text = manifest.read_text()
    manifest.write_text(text.replace('"name": "train_', '"name": "train_9'))
    assert "a damaged headrace manifest: CRC-32" in run("verify", output)[1]
    content = json.loads(manifest.read_text())
    del content["headrace_manifest"], content["crc32"]
    manifest.write_bytes(versioned_bytes("headrace_manifest", content))
    assert "has another digest than in its snapshot" in run("verify", output)[1]
    manifest.write_text("{}")
    assert run("verify", output)[0] == 1
    manifest.unlink()
    assert "manifest 1 is missing" in run("verify", output)[1]
    manifest.write_text(text)
    assert run("verify", output)[0] == 0
    (table,) = (audio / "snapshots").glob("*.shards")
    flip(table, -1)
    code, out, _ = run("verify", output)
    assert (code, f"{table.name}: does not have the digest" in out) == (1, True)


@pytest.mark.medium
def test_verify_finds_damaged_and_missing_planned_keys(run, tmp_path):
    made = Project(tmp_path)
    made.put("a.wav")
    made.build()
    assert run("verify", tmp_path / "output")[0] == 0
    (keys,) = (tmp_path / "output").rglob("*.keys")
    flip(keys, 1)
    code, out, _ = run("verify", tmp_path / "output")
    assert (code, f"{keys.name}: does not have the digest in its manifest" in out) == (1, True)
    keys.unlink()
    code, out, _ = run("verify", tmp_path / "output")
    assert (code, f"{keys.name}: missing" in out) == (1, True)


def test_verify_checks_foreign_tars(run, tars):
    assert run("verify", tars)[0] == 0
    run("index", tars)
    assert run("verify", f"{tars}/train-*.tar")[0] == 0
    write_tar(tars / "train-001.tar", {**members_of(clips(3)), "broken.flac": b"fLaC"})
    code, out, _ = run("verify", tars)
    assert code == 1
    assert "train-001.tar" in out
    (tars / "train-000.tar").write_bytes(b"no tar")
    assert "not a readable tar" in run("verify", tars)[1]


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz", ".tar.zst"])
def test_verify_reads_compressed_tars(run, tars, suffix):
    pack = zstandard.ZstdCompressor().compress if suffix == ".tar.zst" else gzip.compress
    for tar in sorted(tars.glob("*.tar")):
        tar.with_suffix(suffix).write_bytes(pack(tar.read_bytes()))
        tar.unlink()
    code, out, _ = run("verify", tars)
    assert (code, "3 shards" in out, "12 samples" in out) == (0, True, True), out
    packed = tars / f"train-001{suffix}"
    cut(packed)
    code, out, _ = run("verify", tars)
    assert (code, "cut off" in out or "damaged" in out) == (1, True)
    write_tar(tars / "inside.tar", {**members_of(clips(3)), "broken.flac": b"fLaC"})
    packed.write_bytes(pack((tars / "inside.tar").read_bytes()))
    (tars / "inside.tar").unlink()
    code, out, _ = run("verify", tars, "--sample", "9")
    assert (code, "broken.flac" in out) == (1, True)


def test_verify_parses_the_json_of_the_samples_that_it_decodes(run, tmp_path):
    write_tar(tmp_path / "a.tar", {"a.json": b"{not json", "b.json": b'{"x": 1}', "b.txt": b"", "c.json": b"\xff"})
    code, out, _ = run("verify", tmp_path, "--sample", "9")
    assert (code, "a.json" in out, "b.json" in out, "c.json" in out) == (1, True, False, True)


# index


def test_index_adds_lengths_to_sizes_json_and_keeps_other_entries(run, tars):
    code, out, _ = run("index", f"{tars}/train-00[01].tar")
    assert code == 0
    assert "2 tars indexed, 8 samples: no faults" in out
    assert json.loads((tars / "sizes.json").read_text()) == {"train-000.tar": 4, "train-001.tar": 4}
    run("index", f"{tars}/train-002.tar")
    assert len(json.loads((tars / "sizes.json").read_text())) == 3
    (tars / "train-000.tar").unlink()
    run("index", f"{tars}/train-002.tar")
    assert sorted(json.loads((tars / "sizes.json").read_text())) == ["train-001.tar", "train-002.tar"]


def test_index_reports_a_damaged_tar_and_leaves_sizes_json_unchanged(run, tars):
    run("index", tars)
    before = (tars / "sizes.json").read_text()
    cut(tars / "train-001.tar")
    (tars / "train-001.tar").write_bytes((tars / "train-001.tar").read_bytes()[:5000])
    write_tar(tars / "train-003.tar", {"a.json": b"", "b.json": b"", "a.txt": b""})
    code, out, _ = run("index", tars)
    assert code == 1
    assert "train-001.tar" in out
    assert "not neighbours" in out
    assert (tars / "sizes.json").read_text() == before


def test_index_rejects_our_own_outputs_and_compressed_tars(run, built, tars):
    code, _, err = run("index", built / "audio")
    assert (code, "belong to the build" in err) == (1, True)
    (tars / "a.tar.gz").write_bytes(b"")
    code, _, err = run("index", f"{tars}/*")
    assert (code, "unpack it first" in err) == (1, True)


# export


@pytest.mark.usefixtures("closed_by_webdataset")
def test_export_links_shards_in_a_plain_layout_that_any_reader_reads(run, built, tmp_path):
    import webdataset as wds

    target = tmp_path / "plain"
    code, out, _ = run("export", built, target)
    assert code == 0
    assert "0 copies" in out
    sizes = json.loads((target / "sizes.json").read_text())
    assert "train_000000.tar" in sizes
    names = shards_of(built)
    plain = f"{names[0].split('_')[0]}_000000.tar"
    assert (target / plain).samefile(built / "audio" / names[0])
    found = wds.WebDataset([str(target / name) for name in sizes], shardshuffle=False)
    assert sum(1 for _ in found) == sum(sizes.values()) == 12
    assert run("verify", target)[0] == 0


@pytest.mark.medium
def test_a_repeated_export_updates_the_earlier_export(run, tmp_path):
    project = Project(tmp_path)
    for number in range(30):
        project.put(f"clip{number:02d}.wav")
    project.build()
    target = tmp_path / "plain"
    run("export", project.folder / "output", target)
    run("export", project.folder / "output", target)
    first = json.loads((target / "sizes.json").read_text())
    for number in range(20):
        project.remove(f"clip{number:02d}.wav")
    project.build()
    _, out, _ = run("export", project.folder / "output", target)
    second = json.loads((target / "sizes.json").read_text())
    assert f"{len(first) - len(second)} of an earlier export removed" in out
    assert sorted(path.name for path in target.glob("*.tar")) == sorted(second)
    assert sum(second.values()) == 10
    assert [path.name for path in target.glob(".*")] == [MARK]
    run("export", project.folder / "output", tmp_path / "old", "--snapshot", 1)
    assert json.loads((tmp_path / "old" / "sizes.json").read_text()) == first
    run("export", project.folder / "output", tmp_path / "test", "--split", "test")
    assert all(name.startswith("test_") for name in json.loads((tmp_path / "test" / "sizes.json").read_text()))


def test_export_copies_where_links_are_not_possible(run, built, tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(18, "Invalid cross-device link")))
    _, out, _ = run("export", built, tmp_path / "plain")
    assert "0 hard links" in out
    assert run("verify", tmp_path / "plain")[0] == 0


def test_export_never_overwrites_files_of_others(run, built, tars):
    code, _, err = run("export", built, tars)
    assert (code, "holds 3 tars" in err) == (1, True)
    code, _, err = run("export", built, built / "audio")
    assert (code, "shard folder that Headrace builds" in err) == (1, True)
    code, _, err = run("export", built, tars.parent / "x", "--snapshot", 9)
    assert (code, "snapshot 9 is not there" in err) == (1, True)
    code, _, err = run("export", built, tars.parent / "x", "--split", "dev")
    assert (code, "no split 'dev'" in err) == (1, True)
