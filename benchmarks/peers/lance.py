"""LanceDB: a table of payloads or arrays, read by its StreamingDataset, whose threads run the transform."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import torch
from lancedb.streaming import StreamingDataset

from benchmarks.peers.batches import Sample, collated, decode, decoded, raw
from benchmarks.peers.clips import BATCH, DOCUMENTED, SEED, Batch, Run, members, once, tars

CLUMP = 16
"""Rows that its shuffle keeps together in its best form: reads of neighbours cost less."""
TABLE = "clips"


def prepare(run: Run) -> None:
    """Payloads as they are, or the raw bytes of arrays; a fragment for each shard."""

    def stored(payload: bytes) -> bytes:
        return decode(replace(run, form=DOCUMENTED), payload).numpy().tobytes() if run.has_arrays else payload

    def rows() -> Iterator[pa.RecordBatch]:
        for tar in tars(run):
            samples = [(stored(payload), text.decode()) for _, payload, text in members(tar, run.kind)]
            payloads, texts = zip(*samples, strict=True)
            yield pa.record_batch([pa.array(payloads, pa.large_binary()), pa.array(texts)], names=["payload", "json"])

    def convert(folder: Path) -> None:
        schema = pa.schema([("payload", pa.large_binary()), ("json", pa.string())])
        lancedb.connect(str(folder)).create_table(TABLE, rows(), schema=schema)

    once(run.own, convert)


def read(run: Run) -> Iterator[Batch]:
    """Rows are decoded by its transform threads, batches made by a DataLoader without workers."""

    def transform(batch: Any) -> list[Sample]:  # noqa: ANN401 - pyarrow has no types
        columns = zip(batch["payload"], batch["json"].to_pylist(), strict=True)
        return [sample(memoryview(payload.as_buffer()), text) for payload, text in columns]

    def sample(payload: memoryview, text: str) -> Sample:
        return (raw(payload), json.loads(text)) if run.has_arrays else decoded(run, payload, text)

    table = lancedb.connect(str(run.own)).open_table(TABLE)
    rows = StreamingDataset(
        table, shuffle_seed=SEED, transform=transform, shuffle_clump_size=CLUMP if run.is_best else None
    )
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH, collate_fn=lambda samples: collated(run, samples))
    yield from loader
