"""The worker processes of `webdataset_loader`: how many there are, and what they know of the process that made them."""

import gc
import os

import pytest

from headrace import webdataset_loader
from headrace.errors import ConfigError
from headrace.plain import loader as module
from tests.support.tars import tar_of

DEFAULT = module._WORKERS  # before a fixture of all tests sets it to 0


@pytest.fixture
def tars(tmp_path):
    """Four tars of two samples."""
    for number in range(4):
        members = {f"{number}{letter}.txt": b"" for letter in "ab"}
        (tmp_path / f"{number}.tar").write_bytes(tar_of(members))
    return tmp_path


@pytest.mark.parametrize(
    ("cores", "names", "expected"), [(8, "*", 2), (2, "*", 2), (1, "*", 1), (8, "0", 1), (8, "[0-2]", 2)]
)
def test_two_workers_start_by_default_but_no_more_than_cores_or_shards(tars, monkeypatch, cores, names, expected):
    monkeypatch.setattr(module, "_WORKERS", DEFAULT)
    monkeypatch.setattr(module, "num_cores", lambda: cores)
    assert webdataset_loader(f"{tars}/{names}.tar").num_workers == expected
    assert webdataset_loader(f"{tars}/{names}.tar", num_workers=0).num_workers == 0


@pytest.mark.medium
@pytest.mark.parametrize(
    "urls", [".", "*.tar", "{0..3}.tar", ["0.tar", "1.tar", "2.tar", "3.tar"], "sizes.json"], ids=str
)
def test_relative_names_are_those_of_when_the_loader_was_made(tars, tmp_path_factory, monkeypatch, urls):
    (tars / "sizes.json").write_text('{"0.tar": 2, "1.tar": 2, "2.tar": 2, "3.tar": 2}')
    monkeypatch.chdir(tars)
    loaders = [webdataset_loader(urls, batch_size=None, num_workers=number) for number in (0, 1)]
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for loader in loaders:
        assert [sample["__key__"] for sample in loader] == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]
        assert len(loader) == 8


def seen(sample):
    """Add the environment that a worker sees to a sample."""
    return sample | {"seen": (os.environ.get("HEADRACE_SEEN", ""), os.environ.get("HEADRACE_GONE", ""))}


@pytest.mark.medium
def test_workers_of_a_fork_server_have_the_environment_of_the_iteration(tars, monkeypatch):
    """The fork server has that of when it was started, by whichever loader was first."""
    monkeypatch.setattr(module, "_start_method", lambda _: "forkserver")
    monkeypatch.setenv("HEADRACE_GONE", "then")
    loader = webdataset_loader(tars, num_workers=1, batch_size=None, transform=seen, persistent_workers=False)
    assert {tuple(sample["seen"]) for sample in loader} == {("", "then")}
    monkeypatch.setenv("HEADRACE_SEEN", "now")
    monkeypatch.delenv("HEADRACE_GONE")
    assert {tuple(sample["seen"]) for sample in loader} == {("now", "")}


class Held(list):
    """An object that the garbage collector knows."""


def searching(sample):
    """Add whether garbage is looked for among what was there before the worker was forked."""
    return sample | {"searched": any(isinstance(one, Held) for one in gc.get_objects())}


@pytest.mark.medium
def test_workers_never_search_for_garbage_what_was_there_before_the_fork(tars):
    """It would take a third of a second in each, and copy the pages that they share."""
    held = Held()
    for workers in (0, 1):
        loader = webdataset_loader(tars, num_workers=workers, batch_size=None, transform=searching)
        assert {sample["searched"] for sample in loader} == {workers == 0}
    assert not held


@pytest.mark.parametrize("how", ["transform", "collate_fn"])
def test_a_function_that_cannot_travel_to_workers_is_an_error_that_says_what_to_do(tars, monkeypatch, how):
    monkeypatch.setattr(module, "_start_method", lambda _: "forkserver")
    loader = webdataset_loader(tars, num_workers=1, **{how: lambda given: given})
    with pytest.raises(ConfigError, match="make it a function of a module, or use num_workers=0"):
        next(iter(loader))
