"""Train under Hugging Face Accelerate: prepare the model and the optimizer, use the loader as it is.

accelerate launch examples/with_accelerate.py data/demo/audio
"""

import sys

import torch
from accelerate import Accelerator

from headrace import StreamingDataLoader, StreamingDataset


def main(remote: str) -> None:
    """One epoch."""
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    loader = StreamingDataLoader(StreamingDataset(remote=remote, split="train", batch_size=8, shuffle=True))
    model = torch.nn.Conv1d(1, 4, kernel_size=64, stride=32)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    for batch in loader:
        loss = model(batch["audio"].to(accelerator.device)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.print(f"{len(loader)} batches, loss {loss.item():.6f}")


if __name__ == "__main__":
    main(sys.argv[1])
