"""Invalid arguments of `webdataset_loader`, which are errors before it reads, and datasets without samples."""

import io
import tarfile

import numpy as np
import pytest

from headrace import webdataset_loader
from headrace.errors import ConfigError, FormatError


def write(path, *names):
    with tarfile.open(path, "w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())


@pytest.fixture
def shards(tmp_path):
    for number in range(3):
        write(tmp_path / f"{number}.tar", f"{number}.txt")
    return tmp_path


WRONG = [
    ("batch_size", "4", "a whole number, at least 1"),
    ("batch_size", 1.5, "a whole number, at least 1"),
    ("num_workers", -1, "a whole number, at least 0"),
    ("shuffle_buffer", "many", "a whole number, at least 0"),
    ("shuffle_shards", "no", "True or False"),
    ("seed", "a", "a whole number"),
    ("split", 3, "a string"),
    ("snapshot", "x", "a whole number"),
    ("drop_last", "no", "True or False"),
    ("transform", "f", "a function"),
    ("collate_fn", None, "a function"),
    ("prefetch_factor", 0, "a whole number, at least 1"),
    ("persistent_workers", "no", "True or False"),
    ("pin_memory", "no", "True or False"),
    ("world", 5, "World"),
]


@pytest.mark.parametrize(("name", "value", "expected"), WRONG, ids=[f"{name}={value}" for name, value, _ in WRONG])
def test_the_error_about_an_invalid_argument_names_it(shards, name, value, expected):
    with pytest.raises(ConfigError, match=rf"^{name} is {value!r}: expected {expected}"):
        webdataset_loader(shards, **{name: value})


def test_numpy_numbers_are_accepted(shards):
    options = {
        "batch_size": np.int64(2),
        "shuffle_buffer": np.int64(3),
        "seed": np.int64(1),
        "num_workers": np.int32(0),
    }
    assert [len(batch["keys"]) for batch in webdataset_loader(shards, **options)] == [2, 1]


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        (None, "urls is None: expected a path or URL, or a list of them"),
        (7, "urls is 7: expected"),
        (["a.tar", 7], r"urls\[1\] is 7: expected a path or URL"),
        ("", r"urls\[0\] is '': expected"),
        ("a.tar::", "part of urls is '': expected"),
    ],
)
def test_urls_that_name_no_shards_are_an_error(urls, words):
    with pytest.raises(ConfigError, match=words):
        webdataset_loader(urls)


def test_an_epoch_that_is_not_a_number_is_an_error(shards):
    loader = webdataset_loader(shards)
    loader.epoch = "last"
    with pytest.raises(ConfigError, match="epoch is 'last'"):
        next(iter(loader))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_shards_without_any_sample_are_an_error(tmp_path, num_workers):
    write(tmp_path / "a.tar")
    write(tmp_path / "b.tar", "README")
    with pytest.raises(FormatError, match=r"a\.tar: no sample in any of 2 shards \(this is the first\): .*KEY\.flac"):
        list(webdataset_loader(tmp_path, num_workers=num_workers))


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_shard_without_samples_beside_other_shards_is_accepted(shards, num_workers):
    write(shards / "empty.tar")
    loader = webdataset_loader(
        f"{shards}/{{0,empty}}.tar", batch_size=2, drop_last=True, num_workers=num_workers, shuffle_buffer=3
    )
    for _ in range(2):
        assert not list(loader)
