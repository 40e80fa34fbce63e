"""Prints what Megatron-Energon reads from WebDataset tars, prepared in their own folder, in the form of `read_ray`."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from megatron.energon import Cooker, DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset, stateless

PREPARE = "prepare --non-interactive --no-progress --split-ratio 1,0,0 --sample-type CrudeWebdataset --num-workers 1"


@stateless
def cook(sample):
    return dict(sample)


class Plain(DefaultTaskEncoder):
    decoder = None
    cookers = (Cooker(cook),)

    @stateless
    def encode_sample(self, sample):
        return sample

    @stateless
    def batch(self, samples):
        return samples

    @stateless
    def encode_batch(self, batch):
        return batch


folder = Path(sys.argv[1]).parent
subprocess.run([Path(sys.executable).with_name("energon"), *PREPARE.split(), folder], check=True, capture_output=True)
samples = get_train_dataset(
    folder,
    worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
    batch_size=4,
    shuffle_buffer_size=None,
    max_samples_per_sequence=None,
    task_encoder=Plain(),
    repeat=False,
)
found = {
    sample["__key__"].rpartition("/")[2]: [hashlib.sha256(sample["flac"]).hexdigest(), json.loads(sample["json"])]
    for batch in get_loader(samples)
    for sample in batch
}
json.dump(found, sys.stdout)
