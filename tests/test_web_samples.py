"""What is wrong with one sample of `webdataset_loader` is said with its shard, its key and the way out."""

import io
import tarfile

import pytest

from headrace import webdataset_loader
from headrace.errors import SampleError


def write(path, members):
    with tarfile.open(path, "w") as archive:
        for name, blob in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(blob)
            archive.addfile(info, io.BytesIO(blob))


def read(folder, **options):
    return list(webdataset_loader(folder, batch_size=None, **options))


def give_nothing(sample):
    sample["seen"] = True


def give_none_of_b(sample):
    return None if sample["__key__"] == "b" else sample


def fail(sample):
    return sample["absent"]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_transform_that_forgets_to_return_is_an_error(tmp_path, num_workers, batch_size):
    write(tmp_path / "a.tar", {"a.txt": b""})
    words = r"a\.tar: sample 'a': the transform gave None: let it return the sample"
    with pytest.raises(SampleError, match=words):
        list(webdataset_loader(tmp_path, batch_size=batch_size, transform=give_nothing, num_workers=num_workers))


def test_a_transform_that_returns_most_samples_loses_none(tmp_path):
    write(tmp_path / "a.tar", {"a.txt": b"", "b.txt": b""})
    with pytest.raises(SampleError, match="sample 'b': the transform gave None"):
        read(tmp_path, transform=give_none_of_b)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_in_a_transform_says_in_which_sample(tmp_path, num_workers):
    write(tmp_path / "a.tar", {"a.txt": b""})
    with pytest.raises(SampleError, match=r"a\.tar: sample 'a': KeyError: 'absent'") as caught:
        read(tmp_path, transform=fail, num_workers=num_workers)
    assert num_workers or isinstance(caught.value.__cause__, KeyError)


def test_json_that_is_none_is_said_to_be_so(tmp_path):
    write(tmp_path / "a.tar", {"a.json": b"{oops"})
    with pytest.raises(SampleError, match=r"a\.tar: sample 'a': its \.json holds no JSON \(.*write it again"):
        read(tmp_path)
