"""Shared by test_plausibility and the tests beside it."""

from headrace import StreamingDataLoader, StreamingDataset


def only_batch(folder, **more):
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(folder), batch_size=2, **more))
    return batch
