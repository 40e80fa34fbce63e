"""Lhotse: Shar with a FLAC field, or an array in its best form, cuts batched by its sampler inside the workers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from lhotse import CutSet, MonoCut, Recording
from lhotse.dataset import DynamicCutSampler
from lhotse.dataset.iterable_dataset import IterableDatasetWrapper

from benchmarks.peers.batches import Sample, collated, decode
from benchmarks.peers.clips import BATCH, DOCUMENTED, SEED, SHUFFLE_BUFFER, Batch, Run, members, once, tars

FIELDS = {"audio": {"recording": "flac"}, "latents": {"latents": "numpy"}}


class Clips(torch.utils.data.Dataset):
    """A batch of cuts to a batch."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, cuts: CutSet) -> Batch:
        return collated(self._run, map(self._sample, cuts))

    def _sample(self, cut: MonoCut) -> Sample:
        about = {"title": cut.custom["title"]}
        if self._run.kind == "latents":
            return torch.from_numpy(cut.load_latents()), about
        if self._run.is_best:
            return decode(self._run, cut.recording.sources[0].source), about
        return torch.from_numpy(cut.load_audio()[0]), about


def prepare(run: Run) -> None:
    """Encoded again as FLAC, which changes no sample, or arrays; the JSON becomes a cut's custom fields."""

    def cut(key: str, payload: bytes, text: bytes) -> MonoCut:
        if run.kind == "audio":
            made = Recording.from_bytes(payload, key).to_cut()
            made.custom = json.loads(text)
            return made
        hidden = decode(replace(run, form=DOCUMENTED), payload).numpy()
        made = MonoCut(key, start=0, duration=5, channel=0, custom=json.loads(text))
        return made.attach_tensor("latents", hidden)

    def convert(folder: Path) -> None:
        cuts = CutSet.from_cuts(cut(*member) for tar in tars(run) for member in members(tar, run.kind))
        cuts.to_shar(folder, fields=FIELDS[run.kind], shard_size=run.per_shard)

    once(run.own, convert)


def read(run: Run) -> Iterator[Batch]:
    """Shards shuffled, cuts in a buffer."""
    cuts = CutSet.from_shar(in_dir=run.own, shuffle_shards=True, split_for_dataloading=True, seed=SEED)
    sampler = DynamicCutSampler(cuts, max_cuts=BATCH, shuffle=True, shuffle_buffer_size=SHUFFLE_BUFFER)
    batches = IterableDatasetWrapper(Clips(run), sampler)
    yield from torch.utils.data.DataLoader(batches, batch_size=None, num_workers=run.num_workers)
