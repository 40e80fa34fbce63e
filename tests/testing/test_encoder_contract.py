"""Each contract of encoders has a test that fails for an encoder that breaks a sentence of the protocol."""

import random
import time

import pytest
import torch

from headrace.encoders import EncoderInfo, load
from headrace.testing import EncoderContract, FieldContract
from tests.support.contracts import failures, new_folders
from tests.support.custom_encoder import Loudness
from tests.support.outputs_encoder import Quantizer


class LocalContract(EncoderContract):
    """The contract of an encoder without attention."""

    is_local = True


class Sound(Loudness):
    """A correct encoder, of which subclasses break one thing."""

    def __init__(self):
        super().__init__("cpu")
        self.info = EncoderInfo(0, 50 * self.hop, 2 * self.hop, is_concurrent=True)

    def num_latent_frames(self, num_frames):
        return -(-num_frames // self.hop)


class NoFingerprint(Sound):
    fingerprint = ""


class NewFingerprint(Sound):
    @property
    def fingerprint(self):
        return f"{random.getrandbits(256):064x}"


class OverlapOfTheContext(Sound):
    def __init__(self):
        super().__init__()
        self.info = EncoderInfo(self.hop, 50 * self.hop, 2 * self.hop)


class WindowOfOverlap(Sound):
    def __init__(self):
        super().__init__()
        self.info = EncoderInfo(0, 2 * self.hop, 2 * self.hop)


class OtherNumberOfFrames(Sound):
    def num_latent_frames(self, num_frames):
        return -(-num_frames // self.hop) + (num_frames > 8000)


class NoFrameForShortInput(Sound):
    def num_latent_frames(self, num_frames):
        return num_frames // self.hop

    def encode(self, batch, lengths):
        hidden, _ = super().encode(batch, lengths)
        return hidden, lengths // self.hop


class NotANumber(Sound):
    def encode(self, batch, lengths):
        hidden, counts = super().encode(batch, lengths)
        return hidden / (lengths > 1)[:, None, None], counts


class NormalisedByTheBatch(Sound):
    def encode(self, batch, lengths):
        hidden, counts = super().encode(batch, lengths)
        return hidden / hidden.abs().max(), counts


class DependsOnPadding(Sound):
    def encode(self, batch, lengths):
        hidden, counts = super().encode(batch, lengths)
        return hidden + batch.shape[2] / 1e5, counts


class DependsOnTheRow(Sound):
    def encode(self, batch, lengths):
        hidden, counts = super().encode(batch, lengths)
        return hidden * torch.arange(1, len(batch) + 1)[:, None, None], counts


class Dropout(Sound):
    def encode(self, batch, lengths):
        hidden, counts = super().encode(batch, lengths)
        return hidden * (1 + 1e-3 * torch.rand(()).item()), counts


class SharedState(Sound):
    def encode(self, batch, lengths):
        self.batch = batch
        time.sleep(0.01)
        return super().encode(self.batch, lengths)


class FramesLater(Sound):
    """Latent frame t belongs to PCM frame t * hop."""

    def encode(self, batch, lengths):
        hidden, counts = super().encode(batch, lengths)
        return hidden + torch.arange(hidden.shape[1])[:, None], counts


class MoreContext(Sound):
    def encode(self, batch, lengths):
        hidden, counts = super().encode(batch, lengths)
        return hidden.cumsum(1), counts


class ChangesItsInput(Sound):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        batch.zero_()
        return found


class ChangesLengths(Sound):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        lengths.zero_()
        return found


ENCODERS = Sound.__subclasses__()


@pytest.mark.medium
@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: one.__name__)
def test_the_contract_of_encoders_finds(encoder):
    assert failures(LocalContract(), lambda: {"encoder": encoder()})


@pytest.mark.medium
def test_the_contract_of_encoders_holds():
    assert not failures(LocalContract(), lambda: {"encoder": Sound()})


class Several(Quantizer):
    """Several correct outputs, of which subclasses break one."""


class CodesTooFew(Several):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        codes, counts = found["codes"]
        return found | {"codes": (codes, counts // 2)}


class CodesAreFloats(Several):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        codes, counts = found["codes"]
        return found | {"codes": (codes.float(), counts)}


class NegativeCodes(Several):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        codes, counts = found["codes"]
        return found | {"codes": (codes * 0 - 1, counts)}


class LargeCodes(Several):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        codes, counts = found["codes"]
        return found | {"codes": (codes + 40_000, counts)}


class OutputMissing(Several):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        del found["levels"]
        return found


class VectorOfTheBatch(Several):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        return found | {"embedding": found["embedding"].mean(0, keepdim=True).expand(len(batch), -1)}


class LengthsOfTheBatch(Several):
    def encode(self, batch, lengths):
        found = super().encode(batch, lengths)
        levels, counts = found["levels"]
        return found | {"levels": (levels, torch.full_like(counts, levels.shape[1]))}


def loaded(name):
    return load("custom", {"encoder": f"{__name__}:{name}"})


CONTRACTS = LocalContract(), FieldContract()


def failures_of(contract, name, folders):
    def fixtures():
        more = {"tmp_path": next(folders)} if isinstance(contract, FieldContract) else {}
        return {"encoder": loaded(name), **more}

    return failures(contract, fixtures)


@pytest.mark.medium
@pytest.mark.parametrize("name", [one.__name__ for one in Several.__subclasses__()])
def test_a_contract_finds(name, tmp_path):
    folders = new_folders(tmp_path)
    assert any(failures_of(one, name, folders) for one in CONTRACTS)


@pytest.mark.medium
@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda one: type(one).__name__)
def test_a_contract_holds(contract, tmp_path):
    assert not failures_of(contract, "Several", new_folders(tmp_path))
