"""Train under Lightning, which saves the state of the loader with its checkpoints and resumes from it.

python examples/with_lightning.py data/demo/audio CHECKPOINTS

Run it again, and it resumes from the newest checkpoint, also within an epoch.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint

from headrace import StreamingDataLoader, StreamingDataset


class Model(LightningModule):
    """A minimal model."""

    def __init__(self, remote: str) -> None:
        super().__init__()
        self.remote = remote
        self.network = torch.nn.Conv1d(1, 4, kernel_size=64, stride=32)

    def train_dataloader(self) -> StreamingDataLoader:
        """The loader, made here and not before `fit`, because Lightning has started all ranks only now."""
        return StreamingDataLoader(StreamingDataset(remote=self.remote, split="train", batch_size=8, shuffle=True))

    def training_step(self, batch: dict[str, Any], number: int) -> torch.Tensor:
        """The loss of one batch."""
        print(f"epoch {self.current_epoch}, batch {number}: {batch['keys'][0]}")
        return self.network(batch["audio"]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer."""
        return torch.optim.AdamW(self.parameters())


def main(remote: str, folder: str) -> None:
    """Train for ten more steps."""
    last = Path(folder) / "last.ckpt"
    done = torch.load(last, weights_only=True)["global_step"] if last.exists() else 0
    trainer = Trainer(
        max_steps=done + 10,
        callbacks=[ModelCheckpoint(folder, every_n_train_steps=10, save_last=True)],
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(Model(remote), ckpt_path=last if last.exists() else None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
