"""Lhotse: Shar with a FLAC field, cuts batched by its dynamic sampler inside the workers."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from lhotse import CutSet, MonoCut, Recording
from lhotse.dataset import DynamicCutSampler
from lhotse.dataset.iterable_dataset import IterableDatasetWrapper

from benchmarks.peers.batches import padded
from benchmarks.peers.clips import BATCH, PER_SHARD, SEED, SHUFFLE_BUFFER, Batch, converted, members, once, tars


class Clips(torch.utils.data.Dataset):
    """A batch of cuts to a batch."""

    def __getitem__(self, cuts: CutSet) -> Batch:
        return padded((torch.from_numpy(cut.load_audio()[0]), cut.custom) for cut in cuts)


def prepare(corpus: Path, kind: str) -> None:
    """Encoded again as FLAC, which changes no sample; the JSON becomes a cut's custom fields."""

    def cut(key: str, payload: bytes, text: bytes) -> MonoCut:
        made = Recording.from_bytes(payload, key).to_cut()
        made.custom = json.loads(text)
        return made

    def convert(folder: Path) -> None:
        cuts = CutSet.from_cuts(cut(*member) for tar in tars(corpus, kind) for member in members(tar, kind))
        cuts.to_shar(folder, fields={"recording": "flac"}, shard_size=PER_SHARD)

    once(converted(corpus, "lhotse", kind), convert)


def read(corpus: Path, kind: str, num_workers: int) -> Iterator[Batch]:
    """Shards shuffled, cuts in a buffer."""
    cuts = CutSet.from_shar(
        in_dir=converted(corpus, "lhotse", kind), shuffle_shards=True, split_for_dataloading=True, seed=SEED
    )
    sampler = DynamicCutSampler(cuts, max_cuts=BATCH, shuffle=True, shuffle_buffer_size=SHUFFLE_BUFFER)
    batches = IterableDatasetWrapper(Clips(), sampler)
    yield from torch.utils.data.DataLoader(batches, batch_size=None, num_workers=num_workers)
