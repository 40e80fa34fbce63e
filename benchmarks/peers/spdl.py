"""SPDL: its tar reader, a shuffle buffer, decoding threads and a collate in one pipeline; no processes."""

import random
from collections.abc import Iterator
from pathlib import Path

import spdl.io
from spdl.pipeline import PipelineBuilder

from benchmarks.peers.batches import collated, decoded
from benchmarks.peers.clips import BATCH, SEED, SHUFFLE_BUFFER, Batch, Run, tars_for

BUFFERED_BATCHES = 4


def prepare(run: Run) -> None:
    """Nothing: it reads our tars."""


def read(run: Run) -> Iterator[Batch]:
    """Tar members to batches; one more thread for the source and the collate."""
    pipeline = (
        PipelineBuilder()
        .add_source(_shuffled(_members(run)))
        .pipe(lambda sample: decoded(run, sample[run.field], bytes(sample["json"])), concurrency=run.num_workers)
        .aggregate(BATCH)
        .pipe(lambda samples: collated(run, samples))
        .add_sink(BUFFERED_BATCHES)
        .build(num_threads=run.num_workers + 1)
    )
    with pipeline.auto_stop():
        yield from pipeline.get_iterator(timeout=60)


Sample = dict[str, memoryview]


def _members(run: Run) -> Iterator[Sample]:
    urls = tars_for(run)
    random.Random(SEED).shuffle(urls)
    for url in urls:
        sample: Sample = {}
        for name, blob in spdl.io.iter_tarfile(Path(url).read_bytes()):
            sample[name.partition(".")[2]] = blob
            if len(sample) == len((run.field, "json")):
                yield sample
                sample = {}


def _shuffled(samples: Iterator[Sample]) -> Iterator[Sample]:
    buffer, chance = [], random.Random(SEED)
    for sample in samples:
        buffer.append(sample)
        if len(buffer) > SHUFFLE_BUFFER:
            number = chance.randrange(len(buffer))
            buffer[number], buffer[-1] = buffer[-1], buffer[number]
            yield buffer.pop()
    chance.shuffle(buffer)
    yield from buffer
