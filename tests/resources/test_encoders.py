"""Encoders are loaded once for each device, and freed after a run unless they are kept."""

import pickle

import dagster as dg
import pytest

from headrace.config.content import EncoderConfig
from headrace_dagster.resources import encoders
from headrace_dagster.resources.encoders import EncoderLoader, Encoders, EncodersResource

MEL, CREPE = EncoderConfig(kind="log_mel", n_mels=4), EncoderConfig(kind="crepe", compile=False)


@pytest.fixture
def calls(monkeypatch):
    calls = []

    def load(kind, settings, device):
        calls.append((kind, settings, device))
        return object()

    monkeypatch.setattr(encoders, "load", load)
    return calls


def test_an_encoder_is_loaded_once_for_each_device(calls):
    loader = EncoderLoader(["cuda:0", "cuda:1"])
    assert len(set(loader.load(MEL))) == 2
    assert loader.load(MEL) == loader.load(MEL)
    assert calls == [("log_mel", {"n_mels": 4}, "cuda:0"), ("log_mel", {"n_mels": 4}, "cuda:1")]
    loader.load(CREPE)
    loader.load(MEL)
    assert len(calls) == 6


def test_encoders_of_sets_that_are_made_together_stay_loaded(calls):
    loader = EncoderLoader(["cpu"])
    first = loader.load(MEL, [CREPE])
    loader.load(CREPE, [MEL])
    assert loader.load(MEL, [CREPE]) is first
    assert len(calls) == 2
    loader.load(CREPE)  # by itself: the memory of the other is freed
    loader.load(MEL)
    assert len(calls) == 3


@pytest.mark.parametrize(("keep", "loads"), [(False, 2), (True, 1)])
def test_a_released_encoder_is_loaded_again_unless_it_is_kept(calls, keep, loads):
    loader = EncoderLoader(["cpu"], keep=keep)
    loader.load(MEL)
    loader.release()
    loader.load(MEL)
    assert len(calls) == loads


@pytest.mark.parametrize("wanted", [None, True, False])
def test_compile_is_a_setting_of_the_kinds_that_have_it(calls, wanted):
    loader = EncoderLoader(["cpu"], wants_compiled=wanted)
    loader.load(CREPE)
    loader.load(MEL)
    assert [settings.get("compile", "absent") for _, settings, _ in calls] == [bool(wanted), "absent"]


def test_auto_is_every_gpu_or_the_cpu(monkeypatch):
    import torch

    for count, devices in ((0, "cpu"), (2, "cuda:0, cuda:1")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        assert EncoderLoader().devices_in_words() == EncoderLoader(["auto"]).devices_in_words() == devices
    assert EncoderLoader(["cuda:7"]).devices_in_words() == "cuda:7"


def test_the_resource_passes_its_fields_on(calls):
    resource = EncodersResource(devices=["cpu"], batch_seconds=3.0, compile=True, num_threads=5)
    resource.load(CREPE)
    assert calls == [("crepe", {"compile": True}, "cpu")]
    assert (resource.options(8).batch_seconds, resource.options(8).num_threads) == (3.0, 5)
    assert EncodersResource().options(8).num_threads == 8
    assert resource.devices_in_words() == "cpu"
    resource.release()
    resource.load(CREPE)
    assert len(calls) == 2


@pytest.mark.medium
def test_a_resource_that_dagster_has_bound_can_be_sent_to_a_cluster():
    sent = []

    @dg.asset
    def latents(headrace_encoders: dg.ResourceParam[Encoders]) -> None:
        sent.append(pickle.loads(pickle.dumps(headrace_encoders)))

    given = EncodersResource(devices=["cpu"], batch_seconds=7.0, num_threads=3)
    assert dg.materialize([latents], resources={"headrace_encoders": given}).success
    assert sent[0].model_dump() == given.model_dump()
    assert sent[0].options(1) == given.options(1)
