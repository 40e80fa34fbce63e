"""Tars without checksums that are written again while a run reads them: an error, and no sample under another's key."""

import contextlib
import io
import os
from functools import partial

import numpy as np
import pytest
import soundfile as sf

from headrace import StreamingDataset
from headrace.errors import FileChangedError, HeadraceError
from headrace.upkeep.tar_indexes import index_tars
from tests.support.foreign_indexes import place, write
from tests.support.hub import COMMITS, hub_server
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import write_tar

FRAMES = 20_000


def wav(number):
    """Noise of its own, in as many bytes as any other."""
    file = io.BytesIO()
    noise = np.random.default_rng(number).integers(-9000, 9000, FRAMES).astype(np.int16)
    sf.write(file, noise, 8000, format="WAV", subtype="PCM_16")
    return file.getvalue()


def write_tars(folder, first):
    """Two tars of two samples each, all of one layout, with an index of Energon beside each."""
    folder.mkdir(parents=True, exist_ok=True)
    for tar in range(2):
        numbers = range(first + 2 * tar, first + 2 * tar + 2)
        members = {n: b for k in numbers for n, b in ((f"s{k:03d}.wav", wav(k)), (f"s{k:03d}.txt", b"text %03d" % k))}
        path = folder / f"train-{tar:03d}.tar"
        write_tar(path.with_suffix(".new"), members)
        path.with_suffix(".new").replace(path)
        os.utime(path, (first + 10**9, first + 10**9))
        write(path, "energon")


@pytest.fixture(params=["folder", "bucket", "bucket of the Hub", "columns"])
def remote(request, tmp_path, monkeypatch):
    """A name of tars, and a function that writes them again."""
    data = tmp_path / "data"
    write_tars(data, 0)
    again = partial(write_tars, data, 50)
    if request.param == "folder":
        yield str(data), {}, again
    elif request.param == "columns":
        for tar in data.glob("*.tar"):
            place(tar, "energon").unlink()
        index_tars(str(data), columns=True, num_threads=1)
        yield str(data), {"columns": ["metadata"]}, again
    elif request.param == "bucket":
        with fault_server(tmp_path) as server:
            for name, value in server.environment().items():
                monkeypatch.setenv(name, value)
            yield f"{server.uri}/data", {}, again
    else:
        for number, commit in enumerate(COMMITS):
            write_tars(tmp_path / "hub" / commit / "data", 50 * number)
        with hub_server(tmp_path / "hub") as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.urls[0])
            hub.signed_for = 1.0  # so that the Hub is asked for each request
            yield "hf://buckets/birds/bucket/data", {}, lambda: setattr(hub, "main", COMMITS[1])


READS = {"whole": {}, "cuts": {"crop_frames": 100}, "a field": {"fields": ["txt"]}, "shuffled": {"shuffle": True}}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_no_sample_comes_under_the_key_of_another(remote, tmp_path, read):
    name, more, write_again = remote
    dataset = StreamingDataset(
        remote=name, batch_size=1, local=str(tmp_path / "cache"), download_retry=0, **read, **more
    )
    found, samples = [], iter(dataset)
    found.append(next(samples))
    write_again()
    with contextlib.suppress(HeadraceError):  # no error where the file is still open
        found.extend(samples)
    assert [bytes(sample["txt"]) for sample in found] == [b"text " + sample["__key__"][1:].encode() for sample in found]
    if not read.keys() & {"crop_frames", "fields"}:
        assert all((sample["audio"].ravel() == sounding(sample["__key__"])).all() for sample in found)


def sounding(key):
    return sf.read(io.BytesIO(wav(int(key[1:]))), dtype="float32")[0]


def test_a_link_to_a_tar_and_other_rights_change_no_sample(tmp_path):
    write_tars(tmp_path / "data", 0)
    samples = iter(StreamingDataset(remote=str(tmp_path / "data"), batch_size=1, local=str(tmp_path / "cache")))
    found = [next(samples)]
    for tar in (tmp_path / "data").glob("*.tar"):
        tar.chmod(0o600)
        (tmp_path / tar.name).hardlink_to(tar)
    found.extend(samples)
    assert len(found) == 4


def write_all(folder, first):
    """Whole tars of the same sizes, each with its index, which is how a repeated export writes them."""
    for tar in range(16):
        write_tar(folder / "new", {f"s{first + tar:03d}.wav": wav(first + tar)})
        (folder / "new").replace(folder / f"train-{tar:03d}.tar")
    index_tars(str(folder), num_threads=1)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_tars_that_are_written_and_indexed_again_are_not_mixed_with_the_former(tmp_path, is_indexed):
    write_all(tmp_path, 0)
    samples = iter(StreamingDataset(remote=str(tmp_path), batch_size=1))
    next(samples)
    write_all(tmp_path, 50)
    if not is_indexed:
        for index in tmp_path.glob("*.idx"):
            index.unlink()
    with pytest.raises(FileChangedError, match=r"train-\d+\.tar: was written again since .* open it again"):
        list(samples)


@pytest.mark.parametrize("change", ["touched", "without indexes"])
def test_the_same_tars_are_read_on_whatever_became_of_their_indexes(tmp_path, change):
    write_all(tmp_path, 0)
    samples = iter(StreamingDataset(remote=str(tmp_path), batch_size=1))
    next(samples)
    for tar in tmp_path.glob("*.tar"):
        if change == "touched":
            os.utime(tar, (tar.stat().st_mtime + 100,) * 2)
        else:
            tar.with_suffix(".idx").unlink()
    assert len(list(samples)) == 15
