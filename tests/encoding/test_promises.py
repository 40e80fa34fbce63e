"""A user's own encoder that fails, or gives something else than it promised: an error that names it and a sample."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.errors import BuildError
from headrace.latents import LatentSettings
from headrace.manifests import newest_manifest
from tests.audio_shards import noise, write_partition
from tests.encoders.custom_encoder import Loudness
from tests.latent_builds import PARTITION, Latents

NUM_FRAMES = (9001, 8000)  # of two clips at 16 kHz: 29 and 25 steps of 320


def _boom(hidden: Tensor, lengths: Tensor) -> object:
    raise ValueError("boom")


def _no_kernel(hidden: Tensor, lengths: Tensor) -> object:
    raise RuntimeError("no kernel image")


FAULTS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "row_short": lambda hidden, lengths: (hidden[:, :-1], lengths),
    "frame_short": lambda hidden, lengths: (hidden[:, :-1], lengths - 1),
    "too_long": lambda hidden, lengths: (hidden, lengths + 5),
    "wide": lambda hidden, lengths: (torch.cat([hidden, hidden], 2), lengths),
    "narrow": lambda hidden, lengths: (hidden[:, :, :1], lengths),
    "varying": lambda hidden, lengths: (hidden[:, :, : 1 + (hidden.shape[1] > 25)], lengths),
    "complex": lambda hidden, lengths: (hidden.to(torch.complex64), lengths),
    "integers": lambda hidden, lengths: (hidden.long(), lengths),
    "pooled": lambda hidden, lengths: (hidden.mean(1), lengths),
    "one_row": lambda hidden, lengths: (hidden[:1], lengths[:1]),
    "no_tuple": lambda hidden, lengths: hidden,
    "list": lambda hidden, lengths: (hidden, lengths.tolist()),
    "numpy": lambda hidden, lengths: (hidden.numpy(), lengths),
    "float_lengths": lambda hidden, lengths: (hidden, lengths.float()),
    "boom": _boom,
    "no_kernel": _no_kernel,
}


class Faulty(Loudness):
    """Gives what a fault makes of the right result."""

    def __init__(self, device: str, fault: str) -> None:
        super().__init__(device)
        self.fault = fault

    def encode(self, batch: Tensor, lengths: Tensor) -> object:
        return FAULTS[self.fault](*super().encode(batch, lengths))


class Speechless(Loudness):
    """Cannot say how long its results are."""

    def num_latent_frames(self, num_frames: int) -> int:
        raise KeyError(num_frames)


class Cramped(Loudness):
    """Has memory for one row, and says so as torch does on a CPU."""

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        if len(batch) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return super().encode(batch, lengths)


def _latents(root: Path, name: str, **settings: object) -> Latents:
    settings["encoder"] = f"{__name__}:{name}"
    latents = Latents(root)
    latents.encoders = lambda: [encoders.load("custom", settings)]
    latents.settings = LatentSettings(encoders.fingerprint("custom", settings), "float32")
    write_partition(latents.audio, [{f"k{i}": noise(length, i) for i, length in enumerate(NUM_FRAMES)}])
    return latents


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("row_short", r"promised 29 latent frames; its encode says 29, in hidden states of 28; .*num_latent_frames"),
        ("frame_short", r"promised 29 latent frames; its encode says 28, in hidden states of 28; "),
        ("too_long", r"promised 29 latent frames; its encode says 34, in hidden states of 29; "),
        ("wide", r"gave \(float32 \(2, 29, 4\), int64 \(2,\)\), it promised \(.* \(2, T, 2\).*latent_dim$"),
        ("narrow", r"gave \(float32 \(2, 29, 1\), "),
        ("complex", r"gave \(complex64 \(2, 29, 2\), .* promised \(floating point "),
        ("integers", r"gave \(int64 \(2, 29, 2\), "),
        ("pooled", r"gave \(float32 \(2, 2\), "),
        ("one_row", r"gave \(float32 \(1, 29, 2\), int64 \(1,\)\)"),
        ("no_tuple", r"gave float32 \(2, 29, 2\), it promised"),
        ("list", r"gave \(float32 \(2, 29, 2\), list\), it promised"),
        ("numpy", r"gave \(numpy.ndarray, int64 \(2,\)\), it promised"),
        ("float_lengths", r"gave \(float32 \(2, 29, 2\), float32 \(2,\)\), it promised"),
        ("boom", "its encode raised ValueError: boom$"),
        ("no_kernel", "its encode raised RuntimeError: no kernel image$"),
    ],
)
def test_a_wrong_result_is_an_error_that_names_encoder_and_sample(tmp_path: Path, fault: str, message: str) -> None:
    """Two rows in one batch; nothing is stored."""
    latents = _latents(tmp_path, "Faulty", fault=fault)
    with pytest.raises(BuildError, match=rf"train_0000_000000.*: sample 'k0'.*encoder custom: .*:Faulty: .*{message}"):
        latents.build()
    assert newest_manifest(latents.storage, PARTITION) is None


def test_latents_of_several_widths_are_refused(tmp_path: Path) -> None:
    """One row at a time: the wide one is as promised, the other is not."""
    with pytest.raises(BuildError, match=r"sample 'k1': .*gave \(float32 \(1, 25, 1\)"):
        _latents(tmp_path, "Faulty", fault="varying").build(batch_seconds=0.1)


def test_the_users_own_error_is_chained(tmp_path: Path) -> None:
    """Its traceback leads to the line that failed; the other samples of the batch are counted."""
    with pytest.raises(BuildError, match="sample 'k0' and 1 more of its batch: ") as caught:
        _latents(tmp_path, "Faulty", fault="boom").build()
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_of_its_num_latent_frames_names_it(tmp_path: Path) -> None:
    """It is asked while batches are planned already."""
    with pytest.raises(BuildError, match=r":Speechless: its num_latent_frames\(\d+\) raised KeyError: ") as caught:
        _latents(tmp_path, "Speechless").build()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_users_encoder_that_runs_out_of_memory_gets_smaller_batches(tmp_path: Path) -> None:
    """Such an error is no fault of its code."""
    assert _latents(tmp_path, "Cramped").build().stats.halvings == 1
