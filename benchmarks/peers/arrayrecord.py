"""Grain: ArrayRecord files in random order, read by its threads, or by its worker processes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import grain.python as pygrain
from array_record.python.array_record_module import ArrayRecordWriter

from benchmarks.peers.batches import Sample, collated, decode, decoded, raw
from benchmarks.peers.clips import BATCH, DOCUMENTED, SEED, Batch, Run, members, once, tars

LENGTH_BYTES = 4
THREADS, BUFFERED_BATCHES = 2, 4


def prepare(run: Run) -> None:
    """A record is the length of its JSON, the JSON and the payload, or the raw bytes of its array; a file a shard."""

    def stored(payload: bytes) -> bytes:
        return decode(replace(run, form=DOCUMENTED), payload).numpy().tobytes() if run.has_arrays else payload

    def convert(folder: Path) -> None:
        for tar in tars(run):
            writer = ArrayRecordWriter(str(folder / f"{Path(tar).stem}.array_record"), "group_size:1,uncompressed")
            for _, payload, text in members(tar, run.kind):
                writer.write(len(text).to_bytes(LENGTH_BYTES, "little") + text + stored(payload))
            writer.close()

    once(run.own, convert)


def read(run: Run) -> Iterator[Batch]:
    """Its documented chain: source, shuffle, map, batch, threads, processes."""

    def sample(record: bytes) -> Sample:
        whole = memoryview(record)
        stop = LENGTH_BYTES + int.from_bytes(record[:LENGTH_BYTES], "little")
        text, payload = bytes(whole[LENGTH_BYTES:stop]), whole[stop:]
        return (raw(payload), json.loads(text)) if run.has_arrays else decoded(run, payload, text)

    def batch(samples: Sequence[Sample]) -> Batch:
        return collated(run, samples)

    source = pygrain.ArrayRecordDataSource([str(path) for path in sorted(run.own.glob("*.array_record"))])
    rows = pygrain.MapDataset.source(source).shuffle(seed=SEED).map(sample).batch(BATCH, batch_fn=batch)
    threads = pygrain.ReadOptions(num_threads=THREADS, prefetch_buffer_size=BUFFERED_BATCHES)
    batches = rows.to_iter_dataset(threads)
    if run.num_workers:
        batches = batches.mp_prefetch(pygrain.MultiprocessingOptions(num_workers=run.num_workers))
    yield from batches
