"""Batches for a GPU are pinned, and are not overwritten during an asynchronous copy."""

import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset
from tests.support.streaming.corpus import clips, write_dataset

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_copied_asynchronously_arrive_unchanged(tmp_path, num_workers):
    write_dataset(tmp_path, {"train": clips(60)})

    def loader(**options):
        return StreamingDataLoader(StreamingDataset(remote=f"{tmp_path}/audio", batch_size=4), **options)

    on_device = []
    for batch in loader(num_workers=num_workers, pin_memory=True):
        assert batch["audio"].is_pinned()
        on_device.append(batch["audio"].to("cuda", non_blocking=True))
        del batch
    torch.cuda.synchronize()
    for found, batch in zip(on_device, loader(), strict=True):
        assert torch.equal(found.cpu(), batch["audio"])
