"""`headrace verify` goes from the snapshot down: what is swapped or missing is a fault, what is not read is listed."""

import json
import shutil

import pytest

from headrace.cli import main
from headrace.format.beside.views import ColumnsOrigin
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.commands import runner
from tests.support.forging import with_crc
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An output with two snapshots of audio, latents, columns and a view."""
    folder = tmp_path_factory.mktemp("whole")
    for count in (8, 12):
        samples = {"train": clips(count), "test": clips(6, first=100)}
        audio = write_dataset(folder, samples, latents=True)
        write_columns(folder, "mine", {spec("n", "int"): lambda clip: clip.number}, samples, audio)
        columns = [ColumnsOrigin("mine", 1, "0" * 64)]
        write_view(folder, "most", lambda key: int(key[-1]) % 2, where=f"n < {count}", columns=columns)
    return folder


@pytest.fixture
def output(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "out")


def faults(folder):
    return [f"{fault.where}: {fault.what}" for fault in verify(find_target(str(folder)), Depth()).faults]


def swap(first, second):
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


@pytest.mark.medium
def test_a_whole_output_has_no_faults(output):
    assert faults(output) == []


SWAPS = {
    "manifests of two partitions": ("audio/manifests/*/00000001.json", "is the manifest of"),
    "manifests of one partition": ("audio/manifests/train-0000/*.json", "has another digest than in its snapshot"),
    "manifests of latents": ("latents/crepe/manifests/train-0000/*.json", "has another digest than in its snapshot"),
    "manifests of columns": ("columns/mine/manifests/train-0000/*.json", "has another digest than in its snapshot"),
    "shards": ("audio/train_0000_00000[01]*.tar", "the name says"),
    "indexes": ("audio/train_0000_00000[01]*.idx", "'train_0000_"),
    "shards of latents": ("latents/crepe/latent_t*.tar", "the name says"),
    "files of columns": ("columns/mine/t*.columns", "the name says"),
    "snapshots": ("audio/snapshots/*.json", "snapshot"),
    "snapshots of a view": ("views/most/snapshots/*.json", "snapshot"),
    "counts of a view": ("views/most/snapshots/*.counts", "does not have the digest in its snapshot"),
}


@pytest.mark.parametrize("case", SWAPS)
def test_two_files_that_were_swapped_are_faults(output, case):
    pattern, words = SWAPS[case]
    first, *_, second = sorted(output.glob(pattern))
    swap(first, second)
    assert any(words in fault for fault in faults(output)), faults(output)


REMOVED = {
    "the newest snapshot": "audio/snapshots/00000002.json",
    "all snapshots of audio": "audio/snapshots",
    "all snapshots of latents": "latents/crepe/snapshots",
    "all snapshots of columns": "columns/mine/snapshots",
    "the snapshots of a view": "views/most/snapshots/*.json",
    "an audio snapshot that a view needs": "audio/snapshots/00000002*",
    "a part of the table of shards": "audio/snapshots/*.shards",
    "a manifest": "audio/manifests/test-0000/*.json",
    "a shard": "audio/train_0000_000000*.tar",
    "an index": "audio/train_0000_000000*.idx",
    "a shard of latents": "latents/crepe/latent_test*.tar",
    "a file of columns": "columns/mine/test*.columns",
    "totals of a view": "views/most/snapshots/*.totals",
    "counts of a view": "views/most/snapshots/*.counts",
    "the list of sizes": "audio/sizes.json",
    "columns that a view reads": "columns/mine",
}


@pytest.mark.parametrize("case", REMOVED)
def test_what_should_be_there_and_is_not_is_a_fault(output, case):
    for path in output.glob(REMOVED[case]):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert faults(output)


@pytest.mark.medium
def test_folders_that_are_looked_at_are_listed(output, capsys, monkeypatch):
    run = runner(capsys, monkeypatch)
    names = ("audio", "latents/crepe", "columns/mine", "views/most")
    listed = [f"{name} (snapshot 2)" for name in names]
    assert f"looked at: {', '.join(listed)}" in run("verify", output)[1].splitlines()
    shutil.rmtree(output / "latents")
    assert json.loads(run("verify", output, "--json")[1])["looked_at"] == [listed[0], *listed[2:]]
    assert "looked at: . (snapshot 2)" in run("verify", output / "audio")[1].splitlines()


def test_a_folder_that_lost_its_snapshots_is_no_plain_dataset(output):
    shutil.rmtree(output / "audio/snapshots")
    assert any("no snapshot is there, but its sizes.json" in fault for fault in faults(output / "audio"))


def test_a_shard_of_an_older_snapshot_is_missed(output):
    content = {path.name for path in (output / "audio").glob("*.tar")}
    newest = json.loads((output / "audio/sizes.json").read_bytes())
    (gone, *_) = sorted(content - set(newest))
    (output / "audio" / gone).unlink()
    (fault,) = faults(output)
    assert "audio/snapshots/00000001.json: 1 of its shards are missing or have another size" in fault


@pytest.mark.parametrize("folder", ["latents/crepe", "columns/mine", "views/most"])
def test_a_snapshot_between_others_is_missed(output, folder):
    snapshots = output / folder / "snapshots"
    (snapshots / "00000002.json").rename(snapshots / "00000003.json")
    assert any("00000002.json: missing, though the snapshots 1 and 3 are there" in fault for fault in faults(output))


def test_a_snapshot_with_other_digests_of_manifests_is_a_fault(output):
    path = output / "audio/snapshots/00000002.json"
    content = json.loads(path.read_bytes())
    content["partitions"]["train-0000"]["digest"] = "0" * 64
    path.write_bytes(with_crc((json.dumps(content, indent=1)).encode()))
    assert any("has another digest than in its snapshot" in fault for fault in faults(output))


def test_what_is_not_looked_at_is_listed(output, capsys, monkeypatch):
    run = runner(capsys, monkeypatch)
    (output / "audio/train_0009_000000-0123456789ab.tar").write_bytes(b"stray")
    (output / "notes.txt").write_text("x")
    code, out, _ = run("verify", output)
    listed = [line.removeprefix(f"not looked at: {output}") for line in out.splitlines() if "not looked at" in line]
    assert code == 0
    assert any(line.startswith("/audio: ") and "train_0009_000000-0123456789ab.tar" in line for line in listed)
    assert any(line == ": 1 files (notes.txt)" for line in listed)
    assert not any("snapshots" in line and ".json" in line for line in listed)


@pytest.mark.medium
def test_files_beside_plain_tars_are_listed(output, tmp_path, capsys, monkeypatch):
    run = runner(capsys, monkeypatch)
    plain = tmp_path / "plain"
    plain.mkdir()
    shutil.copy(min((output / "audio").glob("*.tar")), plain / "a.tar")
    assert main(["index", str(plain)]) == 0
    assert "not looked at" not in run("verify", plain)[1]
    (plain / "a.tar.bz2").write_bytes(b"x")
    assert f"not looked at: {plain}: 1 files (a.tar.bz2)" in run("verify", plain)[1]
    assert "not looked at" not in run("verify", f"{plain}/*.tar")[1]
