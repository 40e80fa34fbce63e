"""Lightning's models and data modules that read with Headrace, and a run of its trainer.

Importing Lightning takes seconds: tests import this module in a fixture, so that collecting them does not.
"""

import pytorch_lightning as lightning
import torch

from headrace import StreamingDataLoader, StreamingDataset


def loader_of(folder, split="train", whole_epoch_len=None, **more):
    more = {"batch_size": 8, "shuffle": split == "train", "fields": ["metadata"]} | more
    return StreamingDataLoader(
        StreamingDataset(remote=f"{folder}/audio", split=split, **more), whole_epoch_len=whole_epoch_len
    )


class Model(lightning.LightningModule):
    """Notes the first key of each batch."""

    def __init__(self, folder, *, reads_steps=False, own=True, validates=False, **more):
        super().__init__()
        self.folder, self.reads_steps, self.more = folder, reads_steps, more
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.trained, self.validated = [], {}
        if own:
            self.train_dataloader = lambda: loader_of(folder, **more)
        if own and validates:
            self.val_dataloader = lambda: loader_of(folder, "test", shuffle=True, batch_size=4)

    def training_step(self, batch, _number):
        self.trained.append(batch["keys"][0])
        return self.weight.sum()

    def validation_step(self, batch, _number):
        if not self.trainer.sanity_checking:
            self.validated.setdefault(self.current_epoch, []).append(batch["keys"][0])

    def configure_optimizers(self):
        if self.reads_steps:
            assert self.trainer.estimated_stepping_batches > 0
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Data(lightning.LightningDataModule):
    """The loaders of a model in a datamodule."""

    def __init__(self, folder, *, validates):
        super().__init__()
        self.train_dataloader = lambda: loader_of(folder)
        if validates:
            self.val_dataloader = lambda: loader_of(folder, "test", shuffle=True, batch_size=4)


def fit(model, folder, *, saves=None, start=None, place="module", validates=False, more=(), given=None, **limits):  # noqa: PLR0913 - of Lightning
    """Train until a limit. Returns the trainer."""
    callbacks = [*more] if saves is None else [lightning.callbacks.ModelCheckpoint(folder, **saves), *more]
    trainer = lightning.Trainer(
        accelerator="cpu",
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **limits,
    )
    given = {} if given is None else {"train_dataloaders": given}
    if place == "datamodule":
        given = {"datamodule": Data(model.folder, validates=validates)}
    if place == "argument":
        val = loader_of(model.folder, "test", shuffle=True, batch_size=4) if validates else None
        given = {"train_dataloaders": loader_of(model.folder), "val_dataloaders": val}
    trainer.fit(model, ckpt_path=start, **given)
    return trainer


def newest(folder):
    return max(folder.glob("*.ckpt"), key=lambda path: int(path.stem.partition("step=")[2].partition("-")[0]))
