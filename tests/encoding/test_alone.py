"""One row of a run is encoded twice, in its batch and alone, and its batch waits for the comparison."""

from types import SimpleNamespace

import pytest
import torch

from headrace.encoders.protocol import EncoderInfo
from headrace.encoding.alone import AloneCheck, compared
from headrace.encoding.batches import ClipPiece, EncodingBatch
from headrace.encoding.device_worker import EncodedJob
from headrace.encoding.plans import NoLatents
from headrace.encoding.reading import EncodingJob
from headrace.encoding.windows import ClipWindow
from headrace.errors import BuildError

CLIPS = [SimpleNamespace(key=f"k{number}", shard="a.tar") for number in range(3)]
PIECES = tuple(ClipPiece(number, 0, ClipWindow(0, 30 - number)) for number in range(3))
ONES = torch.ones(2, 4)


def encoder(tolerance=0.0):
    info = EncoderInfo(0, 10, 2, batch_tolerance=tolerance)
    return SimpleNamespace(device="cpu", name="mine", hop=1, latent_dim=4, info=info)


def job(*pieces):
    return EncodingJob(0, CLIPS, EncodingBatch(pieces))


def encoded(*rows):
    return EncodedJob(0, tuple((PIECES[number], (hidden,)) for number, hidden in rows), 0, 0.0)


def started():
    """A check whose run has a batch of all clips, which is held back."""
    check = AloneCheck(encoder(), "float32")
    jobs = list(check.with_one_alone([job(*PIECES)]))
    whole = encoded(*((number, ONES) for number in range(3)))
    assert check.passed(whole) == []
    return check, jobs, whole


def test_the_shortest_row_of_the_first_batch_of_several_comes_once_more():
    check = AloneCheck(encoder(), "float32")
    jobs = list(check.with_one_alone([job(PIECES[0]), job(*PIECES), job(*PIECES)]))
    assert [found.batch.pieces for found in jobs] == [PIECES[:1], PIECES, PIECES[2:], PIECES]


def test_a_batch_is_published_once_its_row_alone_has_come_and_the_row_alone_is_not():
    check, jobs, whole = started()
    assert jobs[1].batch.pieces == PIECES[2:]
    assert check.passed(encoded((2, ONES))) == [whole]
    assert check.comparison is not None
    later = encoded((0, ONES))
    assert check.passed(later) == [later]


def test_a_row_that_differs_is_an_error_that_names_shard_sample_and_encoder():
    check, _, _ = started()
    with pytest.raises(BuildError, match=r"a\.tar: sample 'k2': encoder mine: the latents depend on the rest of"):
        check.passed(encoded((2, ONES * 1.01)))


@pytest.mark.parametrize(
    ("alone", "stored", "tolerance", "dtype", "is_same"),
    [
        (ONES, ONES, 0.0, "float32", True),
        (ONES, ONES * 1.001, 0.0, "float32", False),
        (ONES, ONES * 1.001, 0.0, "bfloat16", True),
        (ONES, ONES * 1.001, 0.01, "float32", True),
        (ONES, torch.ones(3, 4), 1.0, "float32", False),
        (torch.zeros(2, 4), torch.zeros(2, 4), 0.0, "float32", True),
        (NoLatents.not_finite(), NoLatents.not_finite(), 0.0, "float32", True),
        (NoLatents.not_finite(), NoLatents.overflow("float16"), 1.0, "float32", False),
        (NoLatents.not_finite(), ONES, 1.0, "float32", False),
    ],
)
def test_results_are_the_same_within_rounding_and_rejections_for_the_same_reason(
    alone, stored, tolerance, dtype, is_same
):
    made = [found if isinstance(found, NoLatents) else (found,) for found in (alone, stored)]
    assert compared("k", *made, encoder(tolerance), dtype).is_same == is_same
