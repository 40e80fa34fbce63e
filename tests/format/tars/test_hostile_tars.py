"""Hostile headers and latents are errors that name the file, before memory is allocated for them."""

import io
import random
import tarfile

import pytest

from headrace import StreamingDataset, webdataset_loader
from headrace.errors import FormatError, HeadraceError
from headrace.format.tars.tar import read_members
from headrace.format.tensors.pth import latent_facts
from tests.support.drills.hostile import LATENTS, saved, tars

HEADERS = {
    "a long name of a terabyte": "a name or record of 1099511627776 bytes, at most 1048576 expected",
    "a long link name of 2^62": "a name or record of .* bytes, at most 1048576 expected",
    "a PAX header of a terabyte": "a name or record of .* bytes, at most 1048576 expected",
    "a global PAX header of 2^80": "a name or record of .* bytes, at most 1048576 expected",
    "a sparse file of two gibibytes": r"'x\.cls' is a sparse file; pack it as it is, without tar --sparse",
    "a sparse file of a kibibyte": r"'x\.cls' is a sparse file",
    "a PAX size that leads back for ever": "'ignored' has a size of -1024 bytes",
    "another archive behind the end": r"another archive follows its end, with 'clip00002\.flac'",
}


@pytest.fixture(params=HEADERS)
def hostile(request, tmp_path):
    """A tar and the expected error."""
    path = tmp_path / "theirs/a.tar"
    path.parent.mkdir()
    path.write_bytes(tars(tmp_path / "canary")[request.param](random.Random(0)))
    return path, HEADERS[request.param]


@pytest.mark.timeout(120)
def test_a_hostile_header_is_an_error(hostile):
    path, words = hostile
    with path.open("rb") as file, pytest.raises(FormatError, match=rf"a\.tar: not a readable tar \(.*{words}"):
        list(read_members(file, path.name))
    with pytest.raises(HeadraceError, match=rf"a\.tar: .*{words}"):
        list(webdataset_loader(str(path)))


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.zst"])
def test_a_pointer_of_git_lfs_in_place_of_a_tar_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"1" * 64 + b"\nsize 12345\n")
    words = r"a\.tar.*: .*a pointer of git-lfs, in place of which `git lfs pull` puts the tar"
    with pytest.raises(HeadraceError, match=words):
        list(StreamingDataset(remote=str(path), batch_size=1))
    with pytest.raises(HeadraceError, match=words):
        list(webdataset_loader(str(path), num_workers=0))


def test_padding_and_garbage_after_the_end_are_ignored(tmp_path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", bufsize=1 << 20) as archive:
        archive.addfile(tarfile.TarInfo("a.cls"))
    for behind in (b"", bytes(10), bytes(100_000), b"rubbish" * 1000):
        whole = io.BytesIO(file.getvalue() + behind)
        assert [member.name for member in read_members(whole, "a.tar")] == ["a.cls"]
        (tmp_path / "a.tar").write_bytes(whole.getvalue())
        assert len(list(webdataset_loader(str(tmp_path / "a.tar")))) == 1


@pytest.mark.medium
def test_a_pth_that_unpacks_to_more_than_its_size_is_an_error(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(tars(tmp_path)["latents that inflate to 64 mebibytes"](random.Random(0)))
    with pytest.raises(HeadraceError, match=r"sample 'a': \.pth rejected: its \d+ bytes unpack to 6\d{7}"):
        list(webdataset_loader(str(path)))


@pytest.mark.parametrize("length", [-3, 4, 1 << 40])
def test_a_length_that_does_not_fit_is_not_stored_in_an_index(length):
    assert latent_facts(saved(LATENTS | {"encoder_length": length})) is None
