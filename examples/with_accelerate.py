"""Train under Hugging Face Accelerate: prepare the model and the optimizer, use the loader as it is.

accelerate launch examples/with_accelerate.py data/demo/audio CHECKPOINT

Run it again, and it resumes where it stopped, also within an epoch, on any number of ranks that divides 24.
"""

import sys
from itertools import chain, islice, repeat
from pathlib import Path

import torch
from accelerate import Accelerator

from headrace import StreamingDataLoader, StreamingDataset

GLOBAL_BATCH = 24


def main(remote: str, checkpoint: str) -> None:
    """Train for ten more steps."""
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    dataset = StreamingDataset(
        remote=remote, split="train", batch_size=GLOBAL_BATCH // accelerator.num_processes, shuffle=True
    )
    loader = StreamingDataLoader(dataset)
    model = torch.nn.Conv1d(1, 4, kernel_size=64, stride=32)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    accelerator.register_for_checkpointing(loader)  # save_state and load_state take the loader's place with the rest
    if Path(checkpoint).exists():
        accelerator.load_state(checkpoint)
    for batch in islice(chain.from_iterable(repeat(loader)), 10):  # epoch after epoch
        loss = model(batch["audio"].to(accelerator.device)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"batch of {batch['keys'][0]}")
    accelerator.save_state(checkpoint)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
