"""The example for ESPnet gives its trainer's batches; ESPnet's base class is a stub of the same methods."""

import abc
import importlib.util
import sys
from types import ModuleType

import pytest
import torch

from headrace.upkeep.tar_indexes import index_tars
from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.foreign_tars import write_tars


class AbsIterFactory(abc.ABC):
    """Stub of the class in espnet2/iterators/abs_iter_factory.py."""

    @abc.abstractmethod
    def build_iter(self, epoch, shuffle=None):
        raise NotImplementedError


@pytest.fixture
def example(monkeypatch):
    for name in ("espnet2", "espnet2.iterators", "espnet2.iterators.abs_iter_factory"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["espnet2.iterators.abs_iter_factory"].AbsIterFactory = AbsIterFactory
    spec = importlib.util.spec_from_file_location("with_espnet", REPOSITORY_ROOT / "examples/with_espnet.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_trainer_gets_padded_speech_and_text_and_an_epoch_is_the_same_after_a_resume(example, tmp_path):
    index_tars(str(write_tars(tmp_path, 3, 4)), num_threads=1, columns=True)
    options = {"tokens": lambda text: [ord(letter) for letter in text], "batch_size": 4, "shuffle": True}
    factory = example.HeadraceIterFactory(str(tmp_path), **options)
    epochs = [list(factory.build_iter(epoch)) for epoch in (1, 2)]
    keys, batch = epochs[0][0]
    assert batch["speech"].shape == (4, int(batch["speech_lengths"].max()))
    assert batch["text"].shape == (4, int(batch["text_lengths"].max()))
    text = "".join(map(chr, batch["text"][0, : batch["text_lengths"][0]].tolist()))
    assert text == f"text {int(keys[0][1:])}"
    assert bool((batch["text"] == -1).any()) == bool((batch["text_lengths"] != batch["text_lengths"].max()).any())
    again = list(example.HeadraceIterFactory(str(tmp_path), **options).build_iter(2))
    assert [keys for keys, _ in again] == [keys for keys, _ in epochs[1]] != [keys for keys, _ in epochs[0]]
    assert all(torch.equal(one[1]["speech"], two[1]["speech"]) for one, two in zip(again, epochs[1], strict=True))
