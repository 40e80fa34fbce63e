"""A user's own encoder that fails, or gives something else than expected: an error that names it and a sample."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.assemble.latents import LatentSettings
from headrace.encoders import EncoderInfo
from headrace.errors import BuildError
from headrace.format.manifests.manifests import newest_manifest
from tests.support.audio_shards import noise, write_partition
from tests.support.custom_encoder import Loudness
from tests.support.latent_builds import PARTITION, Latents

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
    "sparse": lambda hidden, lengths: (hidden.to_sparse(), lengths),
    "nested": lambda hidden, lengths: (torch.nested.nested_tensor(list(hidden)), lengths),
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


class Vector(Loudness):
    """One vector for a clip, with the windows that are the default."""

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return 1

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `Encoder`."""
        hidden, _ = super().encode(batch, lengths)
        return hidden[:, :1], torch.ones(len(batch), dtype=torch.int64)


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
        (
            "row_short",
            r"returns 29, but its encode returns the length 29 and latents of 28 frames; .*num_latent_fr",
        ),
        ("frame_short", r"returns 29, but its encode returns the length 28 and latents of 28 frames; "),
        ("too_long", r"returns 29, but its encode returns the length 34 and latents of 29 frames; "),
        ("wide", r"returned \(float32 \(2, 29, 4\), int64 \(2,\)\), expected \(.* \(2, T, 2\).*latent_dim$"),
        ("narrow", r"returned \(float32 \(2, 29, 1\), "),
        ("complex", r"returned \(complex64 \(2, 29, 2\), .* expected \(floating point "),
        ("integers", r"returned \(int64 \(2, 29, 2\), "),
        ("pooled", r"returned \(float32 \(2, 2\), "),
        ("one_row", r"returned \(float32 \(1, 29, 2\), int64 \(1,\)\)"),
        ("sparse", r"returned \(sparse_coo float32 \(2, 29, 2\), int64 \(2,\)\), expected"),
        ("nested", r"returned \(nested float32, int64 \(2,\)\), expected"),
        ("no_tuple", r"returned float32 \(2, 29, 2\), expected"),
        ("list", r"returned \(float32 \(2, 29, 2\), list\), expected"),
        ("numpy", r"returned \(numpy.ndarray, int64 \(2,\)\), expected"),
        ("float_lengths", r"returned \(float32 \(2, 29, 2\), float32 \(2,\)\), expected"),
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
    with pytest.raises(BuildError, match=r"sample 'k1': .*returned \(float32 \(1, 25, 1\)"):
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


class Untidy(Loudness):
    """Leaves numbers, or none, behind each row's length."""

    def __init__(self, device: str, value: float) -> None:
        super().__init__(device)
        self.value = value

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        hidden, num_latent = super().encode(batch, lengths)
        is_padding = torch.arange(hidden.shape[1]) >= num_latent[:, None]
        return hidden.masked_fill(is_padding[:, :, None], self.value), num_latent


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 7.0])
def test_what_an_encoder_leaves_behind_a_rows_length_reaches_no_latents(tmp_path: Path, value: float) -> None:
    """And rejects no sample."""
    built = []
    for left in (value, 0.0):
        latents = _latents(tmp_path / str(left), "Untidy", value=left)
        latents.build()
        manifest = newest_manifest(latents.storage, PARTITION).manifest
        assert manifest.refused == ()
        built.append([latents.sample(shard.name, f"k{i}")[2] for shard in manifest.shards for i in range(2)])
    for untidy, tidy in zip(*built, strict=True):
        assert np.array_equal(untidy, tidy)


class BatchMean(Loudness):
    """Subtracts what the rows of a batch have in common, as a batch norm in training mode does."""

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        hidden, num_latent = super().encode(batch, lengths)
        return hidden - hidden.mean(dim=(0, 1)), num_latent


class PaddingMean(Loudness):
    """Takes the mean over a row with its padding: only the shorter rows of a batch show it."""

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        hidden, num_latent = super().encode(batch, lengths)
        return hidden - hidden.abs().mean(dim=1, keepdim=True), num_latent


class Rounding(Loudness):
    """Computes in bfloat16, where the size of a batch decides the order of sums."""

    def __init__(self, device: str, tolerance: float = 0.0) -> None:
        super().__init__(device)
        self.info = EncoderInfo(8_000, 480_000, 32_000, batch_tolerance=tolerance)

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        hidden, num_latent = super().encode(batch, lengths)
        return hidden * (1 + 0.01 * len(batch)), num_latent


@pytest.mark.parametrize("name", ["BatchMean", "PaddingMean", "Rounding"])
def test_an_encoder_whose_result_depends_on_its_batch_is_refused(tmp_path: Path, name: str) -> None:
    """The shortest row of the first batch is encoded alone too; nothing is stored, and a second build refuses again."""
    latents = _latents(tmp_path, name)
    for _ in range(2):
        with pytest.raises(
            BuildError,
            match=rf"train_0000_000000.*: sample 'k1': encoder custom: .*:{name}: the latents depend on the rest of "
            r"the batch: encoded alone, a frame differs by 0?\.?\d\S* of the largest \(0.0002 is allowed\)",
        ):
            latents.build()
        assert newest_manifest(latents.storage, PARTITION) is None
        assert list(latents.storage.list()) == []


def test_an_encoder_that_rounds_more_may_say_so(tmp_path: Path) -> None:
    """Half precision differs with the size of the batch."""
    comparison = _latents(tmp_path, "Rounding", tolerance=0.02).build().stats.alone
    assert comparison.key == "k1"
    assert 0.009 < comparison.difference < comparison.allowed == 0.02


def test_one_sample_of_a_partition_is_encoded_in_a_batch_and_alone(tmp_path: Path) -> None:
    """One row more than without, and none where each is a batch of its own."""
    build = _latents(tmp_path, "Exact").build()
    assert (build.stats.num_batches, build.stats.alone.key) == (2, "k1")
    assert build.stats.alone.difference < 1e-6
    alone = _latents(tmp_path / "alone", "Exact").build(batch_seconds=0.1)
    assert (alone.stats.num_batches, alone.stats.alone) == (2, None)


class Exact(Loudness):
    """Keeps its promise."""


def test_a_vector_for_a_clip_is_refused_where_the_clip_would_be_cut_into_windows(tmp_path: Path) -> None:
    """The vector of its first window would have stood for all of it."""
    latents = _latents(tmp_path, "Vector")
    latents.build()
    write_partition(latents.audio, [{"long": noise(31 * 16_000, 1)}])
    with pytest.raises(
        BuildError, match=r":Vector: a recording of 31.0 s needs 2 windows of 30 s, .* returns 1 latent"
    ):
        latents.build()
