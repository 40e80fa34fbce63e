"""SPDL: its tar reader, a shuffle buffer, decoding threads and a collate in one pipeline; no processes."""

import random
from collections.abc import Iterator
from pathlib import Path

import spdl.io
from spdl.pipeline import PipelineBuilder

from benchmarks.peers.batches import decoded, padded
from benchmarks.peers.clips import BATCH, FIELD, SEED, SHUFFLE_BUFFER, Batch, tars

BUFFERED_BATCHES = 4


def prepare(corpus: Path, kind: str) -> None:
    """Nothing: it reads our tars."""


def read(corpus: Path, kind: str, num_threads: int) -> Iterator[Batch]:
    """Tar members to batches; one more thread for the source and the collate."""
    pipeline = (
        PipelineBuilder()
        .add_source(_shuffled(_members(corpus, kind)))
        .pipe(lambda sample: decoded(kind, sample[FIELD[kind]], bytes(sample["json"])), concurrency=num_threads)
        .aggregate(BATCH)
        .pipe(padded)
        .add_sink(BUFFERED_BATCHES)
        .build(num_threads=num_threads + 1)
    )
    with pipeline.auto_stop():
        yield from pipeline.get_iterator(timeout=60)


Sample = dict[str, memoryview]


def _members(corpus: Path, kind: str) -> Iterator[Sample]:
    urls = tars(corpus, kind)
    random.Random(SEED).shuffle(urls)
    for url in urls:
        sample: Sample = {}
        for name, blob in spdl.io.iter_tarfile(Path(url).read_bytes()):
            sample[name.partition(".")[2]] = blob
            if len(sample) == len((FIELD[kind], "json")):
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
