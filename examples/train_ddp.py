"""Train on latents with torch.distributed, save a checkpoint within an epoch, resume with any number of ranks.

Run `torchrun --nproc-per-node 2 examples/train_ddp.py data/demo/latents/crepe checkpoint.pt`, then the same with 4: it
resumes where the first run stopped.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from headrace import StreamingDataLoader, StreamingDataset

GLOBAL_BATCH_SIZE = 8  # kept when the number of ranks changes, so that the run is the same run
MAX_STEPS = 10


def main(remote: str, checkpoint: Path) -> None:
    """Train for a few steps, from the checkpoint if there is one."""
    dist.init_process_group("gloo")
    dataset = StreamingDataset(
        remote=remote, split="train", batch_size=GLOBAL_BATCH_SIZE // dist.get_world_size(), shuffle=True
    )
    loader = StreamingDataLoader(dataset)
    model = DistributedDataParallel(torch.nn.Linear(dataset[0]["encoder_hidden"].shape[1], 1))
    optimizer = torch.optim.AdamW(model.parameters())
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.module.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])

    for step, batch in enumerate(loader, 1):  # ends at the same step on every rank
        hidden, lengths = batch["encoder_hidden"].float(), batch["encoder_length"]
        mean = hidden.sum(1) / lengths.clamp(min=1)[:, None]
        loss = (model(mean).square().squeeze(1) * ~batch["is_padding"]).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == MAX_STEPS:
            break
    if dist.get_rank() == 0:
        state = loader.state_dict()
        torch.save({"model": model.module.state_dict(), "loader": state}, checkpoint)
        print(f"epoch {state['epoch']}, sample {state['sample_in_epoch']}, loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
