"""`StreamingDataLoader`: batches of a `StreamingDataset`, made ahead of their use."""

import os
from collections.abc import Iterator
from typing import Any

from headrace.streaming import distributed
from headrace.streaming.dataset import StreamingDataset
from headrace.streaming.stats import LoaderStats, Meter, Work
from headrace.streaming.threads import ThreadedBatches

_MAX_THREADS = 16


class StreamingDataLoader:
    """Batches of one rank."""

    def __init__(
        self, dataset: StreamingDataset, *, num_workers: int = 0, num_threads: int | None = None, prefetch_factor: int = 2
    ) -> None:
        self.dataset = dataset
        self.num_workers = num_workers
        self._num_threads = num_threads or default_num_threads()
        self._depth = prefetch_factor + 1
        self._meter = Meter()
        self._work = Work()

    def __len__(self) -> int:
        return len(self.dataset) // self.dataset.batch_size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        run = self.dataset.begin()
        maker = ThreadedBatches(self.dataset.assembler(), num_threads=self._num_threads, depth=self._depth)
        self._work = maker.work
        batches = maker.run(run.plans())
        try:
            while True:
                with self._meter.waiting():
                    batch = next(batches, None)
                if batch is None:
                    return
                self._meter.delivered(len(batch.keys) - int(batch.is_padding.sum()))
                yield batch.to_dict(self.dataset.output)
                del batch
        finally:
            maker.close()


def default_num_threads() -> int:
    """This rank's share of the cores that this process may use."""
    return max(1, min(_MAX_THREADS, len(os.sched_getaffinity(0)) // distributed.local_world_size()))
