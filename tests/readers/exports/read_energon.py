"""Reads an export with Megatron-Energon, which needs no `energon prepare`."""

import json
import sys

from found import decoded, show
from megatron.energon import Cooker, DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, stateless


@stateless
def cook(sample):
    """Take the files as they are."""
    return dict(sample)


class Plain(DefaultTaskEncoder):
    """Neither decodes nor batches."""

    decoder = None
    cookers = (Cooker(cook),)

    @stateless
    def encode_sample(self, sample):
        """Keep the sample."""
        return sample

    @stateless
    def batch(self, samples):
        """Keep the samples."""
        return samples

    @stateless
    def encode_batch(self, batch):
        """Keep the batch."""
        return batch


samples = get_train_dataset(
    sys.argv[1],
    worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
    batch_size=4,
    shuffle_buffer_size=None,
    max_samples_per_sequence=None,
    task_encoder=Plain(),
    repeat=False,
)
show(
    "megatron-energon",
    (
        (one["__key__"].rpartition("/")[2], decoded(one["flac"]), json.loads(one["json"])["text"])
        for batch in get_loader(samples)
        for one in batch
    ),
)
