"""`headrace verify` of tars that were indexed with columns: their indexes, columns and views, wherever these are."""

import gzip
import os

import pytest

from headrace import StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import IntegrityError
from headrace.upkeep.inspection import inspect
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view
from tests.support.foreign_tars import flac, write_tars
from tests.support.tars import tar_of


def index(tars, into, **more):
    return index_tars(str(tars), num_threads=1, columns=True, into=str(into), **more)


@pytest.fixture(params=["beside", "into"])
def places(request, tmp_path):
    """Tars, and the folder with what is known of them."""
    tars = write_tars(tmp_path / "tars", 2)
    into = tars if request.param == "beside" else tmp_path / "into"
    index(tars, into)
    make_view(str(into), "few", "number < 3")
    return tars, into


def flipped(path, place):
    """Change a bit, and keep the time."""
    times = path.stat()
    blob = bytearray(path.read_bytes())
    blob[place(blob)] ^= 1
    path.write_bytes(blob)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def columns_of(into):
    return next(into.glob("columns/metadata/*.columns"))


def middle(blob):
    return len(blob) // 2


DAMAGES = {
    "tar": lambda tars, _: flipped(tars / "train-001.tar", lambda blob: blob.index(b'"speaker"') + 1),
    "index": lambda _, into: flipped(into / "train-001.idx", middle),
    "lost index": lambda _, into: (into / "train-001.idx").unlink(),
    "columns": lambda _, into: flipped(columns_of(into), middle),
    "lost columns": lambda _, into: columns_of(into).unlink(),
    "view": lambda _, into: flipped(next(into.glob("views/few/snapshots/*.counts")), middle),
    "snapshot": lambda _, into: (into / "tars/snapshots/00000001.json").write_text("{"),
    "list of tars": lambda _, into: flipped(next(into.glob("tars/snapshots/*.tars")), middle),
    "lost tar": lambda tars, _: (tars / "train-001.tar").unlink(),
    "tar written again": lambda tars, _: os.utime(tars / "train-001.tar", (1, 1)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found(places, damage):
    tars, into = places
    assert main(["verify", str(into)]) == 0
    damage(tars, into)
    assert main(["verify", str(into)]) == 1


MENDED = {name: DAMAGES[name] for name in ("index", "lost index", "columns", "lost columns", "tar written again")}


@pytest.mark.parametrize("damage", MENDED.values(), ids=MENDED)
def test_what_is_damaged_or_lost_is_written_again(places, damage):
    tars, into = places
    damage(tars, into)
    index(tars, into)
    assert main(["verify", str(into)]) == 0
    assert len(list(StreamingDataset(remote=str(into), batch_size=4, columns=["metadata"]))) == 8
    few = StreamingDataset(remote=str(into), batch_size=1, view="few")
    assert [one["__key__"] for one in few] == ["s000", "s001", "s002"]


def test_files_that_are_verified_are_not_called_unseen(places, capsys):
    main(["verify", str(places[1])])
    assert "not looked at" not in capsys.readouterr().out


def test_one_tar_is_verified_without_the_columns_of_all(places):
    tars, into = places
    columns_of(into).unlink()
    assert main(["verify", str(tars / "train-000.tar")]) == 0
    assert main(["verify", str(tars / "train-{000..001}.tar")]) == 0


def test_a_compressed_tar_beside_indexed_ones_is_no_fault(tmp_path):
    tars = write_tars(tmp_path, 1)
    (tars / "b-0.tar.gz").write_bytes(gzip.compress((tars / "train-000.tar").read_bytes()))
    index(tars / "*.tar", tars)
    assert main(["verify", str(tars)]) == 0


def test_the_working_folder_may_change_after_a_loader_was_made(tmp_path, monkeypatch):
    tars = write_tars(tmp_path / "tars", 1)
    index(tars, tmp_path / "into")
    flipped(tars / "train-000.tar", lambda blob: blob.index(b'"speaker"') + 1)
    monkeypatch.chdir(tmp_path)
    loader = webdataset_loader("into", num_workers=0)
    monkeypatch.chdir("/")
    with pytest.raises(IntegrityError):
        list(loader)


def test_named_audio_fields_are_those_of_the_index_for_all_readers(tmp_path):
    (tmp_path / "tars").mkdir()
    files = {f"s{n}.{name}.flac": flac(n, 400) for n in range(2) for name in ("far", "mic")}
    (tmp_path / "tars/a-0.tar").write_bytes(tar_of(files))
    into = tmp_path / "into"
    index(tmp_path / "tars", into, audio_fields=["mic", "far"])
    for samples in (
        list(StreamingDataset(remote=str(into), batch_size=2)),
        list(webdataset_loader(str(into), batch_size=None, num_workers=0)),
    ):
        assert [one["__key__"] for one in samples] == ["s0", "s1"]
        assert all({"mic", "far"} <= one.keys() for one in samples)
    assert main(["verify", str(into)]) == 0
    assert inspect(str(into)).tars.lengths.fields == ("far.flac", "mic.flac")
