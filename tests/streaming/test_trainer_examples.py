"""The examples for NeMo, moshi-finetune and stable-audio-tools give the batches that these trainers take.

The other side is a stub: the lines of their training steps that touch a batch, and the classes of moshi-finetune that
the example imports.
"""

import importlib.util
import math
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from headrace.upkeep.tar_indexes import index_tars
from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.column_fixtures import write_columns
from tests.support.foreign_tars import write_tars
from tests.support.streaming.corpus import LATENT_HOP, RATE_HZ, clips, write_dataset


def example(name):
    spec = importlib.util.spec_from_file_location(name, REPOSITORY_ROOT / f"examples/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tars(tmp_path_factory):
    """Three tars of others with four samples each, indexed with their columns."""
    folder = tmp_path_factory.mktemp("tars")
    index_tars(str(write_tars(folder, 3, 4)), num_threads=1, columns=True)
    return str(folder)


def letters(text):
    return [ord(letter) for letter in text]


def test_nemo_gets_signals_and_tokens_of_four_tensors_and_goes_on_where_it_stopped(tars):
    def loader():
        return example("with_nemo").nemo_loader(tars, letters, pad_id=7, batch_size=4, shuffle=True)

    first = loader()
    batches = [list(first) for _ in range(2)]
    for signal, signal_len, transcript, transcript_len in batches[0]:  # as `training_step` of NeMo's models unpacks it
        assert (signal.shape, signal.dtype) == ((4, int(signal_len.max())), torch.float32)
        assert (transcript.shape, transcript.dtype) == ((4, int(transcript_len.max())), torch.int64)
        assert {signal_len.dtype, transcript_len.dtype} == {torch.int64}
        lengths = zip(signal_len.tolist(), transcript_len.tolist(), strict=True)
        for row, (num_frames, length) in zip(transcript, lengths, strict=True):
            number = int("".join(map(chr, row[:length].tolist())).removeprefix("text "))
            assert num_frames == 400 + number
            assert 0 <= number < 12
            assert row[length:].tolist() == [7] * (len(row) - length)
    again = loader()
    again.load_state_dict(_state_after(loader(), 4))
    assert all(torch.equal(one[0], two[0]) for one, two in zip(again, batches[1][1:], strict=True))


def _state_after(loader, num_batches):
    count = 0
    while True:
        for _ in loader:
            count += 1
            if count == num_batches:
                return loader.state_dict()


@dataclass
class Sample:
    """Stub of finetune/data/interleaver.py."""

    codes: torch.Tensor
    condition_attributes: object = None


@dataclass
class Batch:
    """Stub of finetune/data/interleaver.py."""

    codes: torch.Tensor
    condition_attributes: list | None = None

    @classmethod
    def collate(cls, samples):
        attributes = [sample.condition_attributes for sample in samples]
        return cls(torch.cat([one.codes for one in samples]), None if attributes[0] is None else attributes)


class Interleaver:
    """Stub: the text of a word is its first letter, in the frame in which the word begins."""

    device = "cpu"
    zero_padding = -1

    def __init__(self, frame_rate):
        self.frame_rate = frame_rate

    def prepare_item(self, alignments, segment_duration):
        text = [3] * math.ceil(segment_duration * self.frame_rate)
        for word, (start, _), _ in alignments:
            text[int(start * self.frame_rate)] = ord(word[0])
        return torch.tensor(text).view(1, 1, -1)


class Mimi:
    """Stub: the codes of a frame are its first sample and the number of its frame."""

    hop = 80
    frame_rate = RATE_HZ / hop

    def encode(self, audio):
        assert audio.shape[1] == 1
        first = (audio[:, 0, :: self.hop] * 32768).long()
        return torch.stack([first, torch.arange(first.shape[1]).expand_as(first)], dim=1)


WINDOW_SECONDS = 0.05
WORDS = [
    {"start": 0.01, "end": 0.02, "label": "a", "speaker": "SPEAKER_MAIN"},
    {"start": 0.07, "end": 0.09, "label": "b", "speaker": "SPEAKER_MAIN"},
]


@pytest.fixture
def moshi(monkeypatch):
    for name in ("finetune", "finetune.data", "finetune.data.interleaver"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    vars(sys.modules["finetune.data.interleaver"]).update(Sample=Sample, Batch=Batch, InterleavedTokenizer=object)
    return example("with_moshi")


def test_moshi_gets_text_and_codes_of_both_channels_of_each_window(moshi, tmp_path):
    talks = clips(4, frames=(900, 1000), num_channels=2)
    write_dataset(tmp_path, {"train": talks})
    write_columns(tmp_path, "metadata", {"alignments": ("intervals", lambda key: WORDS), "tone": ("string", str)})
    mimi, num_frames = Mimi(), round(WINDOW_SECONDS * Mimi.frame_rate)
    tokenizer = SimpleNamespace(
        mimi=mimi, interleaver=Interleaver(mimi.frame_rate), duration_sec=WINDOW_SECONDS, num_audio_frames=num_frames
    )
    batches = moshi.moshi_batches(
        str(tmp_path), tokenizer, 2, conditions="tone", is_endless=False, local=str(tmp_path / "cache")
    )
    found = [(row, key) for batch in batches for row, key in zip(batch.codes, batch.condition_attributes, strict=True)]
    expected = [(talk, start) for talk in talks for start in range(0, talk.num_frames, 400)]
    assert len(found) == len(expected) == 12
    for (codes, key), (talk, start) in zip(found, expected, strict=True):
        window = np.zeros((400, 2), np.int64)
        window[: min(400, talk.num_frames - start)] = talk.pcm()[start : start + 400]
        text = {0: [3, ord("a"), 3, 3, 3], 400: [3, 3, ord("b"), 3, 3], 800: [3] * 5}[start]
        left, right = window[::80, 0].tolist(), window[::80, 1].tolist()
        assert codes.tolist() == [text, left, list(range(5)), right, list(range(5))]
        assert key == talk.key
    endless = moshi.moshi_batches(str(tmp_path), tokenizer, 2, local=str(tmp_path / "cache"))
    assert [next(endless).condition_attributes for _ in range(8)] == [None] * 8  # epochs have six batches
    endless.close()


def test_stable_audio_gets_crops_of_one_length_and_what_its_conditioners_take(tars):
    loader = example("with_stable_audio").stable_audio_loader(tars, 405, phase_flips=1.0, batch_size=4)
    plain = example("with_stable_audio").stable_audio_loader(tars, 405, phase_flips=0.0, batch_size=4)
    for (audio, metadata), (turned, _) in zip(plain, loader, strict=True):
        assert audio.shape == (4, 2, 405)
        assert torch.equal(audio, -turned)
        assert torch.equal(audio[:, 0], audio[:, 1])
        masks = torch.stack([row["padding_mask"][0] for row in metadata])  # as its training steps do
        assert masks.sum(1).tolist() == [min(405, 400 + row["number"]) for row in metadata]
        assert [row["prompt"] for row in metadata] == [f"text {row['number']}" for row in metadata]
        assert {(row["seconds_start"], row["seconds_total"]) for row in metadata} == {(0, 1)}
        assert all(torch.equal(row["audio"], one) for row, one in zip(metadata, audio, strict=True))


def test_stable_audio_gets_the_length_of_its_model_at_the_rate_of_its_model(tars):
    loader = example("with_stable_audio").stable_audio_loader(tars, 400, sample_rate=16_000, batch_size=4)
    audio, metadata = next(iter(loader))
    assert audio.shape == (4, 2, 400)
    assert {int(row["padding_mask"][0].sum()) for row in metadata} == {400}


def test_stable_audio_gets_latents_channels_first(tmp_path):
    songs = clips(8, frames=(300, 900))
    write_dataset(tmp_path, {"train": songs}, latents=True)
    write_columns(tmp_path, "metadata", {"text": ("string", str)}, {"duration_seconds": ("float", lambda key: 0.1)})
    loader = example("with_stable_audio").stable_audio_loader(
        str(tmp_path / "latents/crepe"), 5, is_latents=True, batch_size=4
    )
    for latents, metadata in loader:
        assert latents.shape == (4, 8, 5)
        for one, row in zip(latents, metadata, strict=True):
            (song,) = (song for song in songs if song.key == row["prompt"])
            length = int(row["padding_mask"][0].sum())
            assert length == min(5, song.num_frames // LATENT_HOP)
            hidden = song.hidden()
            starts = [
                n for n in range(len(hidden) - length + 1) if (hidden[n : n + length] == one.T[:length].numpy()).all()
            ]
            assert len(starts) == 1
            assert not one[:, length:].any()
