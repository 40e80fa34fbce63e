"""Lightning resumes at the right batch, whatever saved the checkpoint and whatever Lightning called before."""

import itertools
import pickle
from importlib.metadata import entry_points

import pytest

from headrace import FrameBudget, StreamingDataLoader, StreamingDataset
from headrace.errors import StateError

lightning = pytest.importorskip("pytorch_lightning")
torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*sanity"),
    pytest.mark.filterwarnings("ignore:.*logging interval"),
    pytest.mark.filterwarnings("ignore:.*Checkpoint directory"),
    pytest.mark.filterwarnings("ignore:.*GPU available"),
]

SAVED = {
    "each epoch": {},
    "each epoch, after training": {"save_on_train_epoch_end": True},
    "each epoch, after validation": {"save_on_train_epoch_end": False},
    "in mid-epoch": {"every_n_train_steps": 10},
    "in mid-epoch, also after training": {"every_n_train_steps": 4, "save_on_train_epoch_end": True},
    "at the last step of an epoch": {"every_n_train_steps": 7},
    "after fit": None,
}
"""Arguments of the ModelCheckpoint."""


def loader_of(folder, split="train", **more):
    more = {"batch_size": 8, "shuffle": split == "train", "fields": ["metadata"]} | more
    return StreamingDataLoader(StreamingDataset(remote=f"{folder}/audio", split=split, **more))


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


def fit(model, folder, *, saves=None, start=None, own=True, place="module", validates=False, **limits):
    """Train until a limit. Returns the trainer."""
    callbacks = [] if saves is None else [lightning.callbacks.ModelCheckpoint(folder, **saves)]
    trainer = lightning.Trainer(
        accelerator="cpu",
        callbacks=callbacks,
        enable_checkpointing=saves is not None,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **limits,
    )
    given = {}
    if place == "datamodule":
        given = {"datamodule": Data(model.folder, validates=validates)}
    if place == "argument":
        val = loader_of(model.folder, "test", shuffle=True, batch_size=4) if validates else None
        given = {"train_dataloaders": loader_of(model.folder), "val_dataloaders": val}
    trainer.fit(model, ckpt_path=start, **given)
    return trainer


def newest(folder):
    return max(folder.glob("*.ckpt"), key=lambda path: int(path.stem.partition("step=")[2].partition("-")[0]))


@pytest.fixture(scope="module")
def order(dataset_folder):
    """The first keys of the batches of four epochs."""
    loader = loader_of(dataset_folder)
    return [batch["keys"][0] for _ in range(4) for batch in loader]


@pytest.fixture(scope="module")
def validations(dataset_folder):
    """The first keys of the validation batches of each epoch."""
    loader = loader_of(dataset_folder, "test", shuffle=True, batch_size=4)
    return [[batch["keys"][0] for batch in loader] for _ in range(4)]


FIRST = {"epochs": {"max_epochs": 2}, "steps": {"max_steps": 14}}
THEN = {"epochs": {"max_epochs": 4}, "steps": {"max_steps": 26}}
PLACES = ["module", "datamodule", "argument"]
VALIDATES = {"no": {}, "epochs": {}, "halves": {"val_check_interval": 0.5}}
CASES = [
    case
    for case in itertools.product(SAVED, FIRST, PLACES, VALIDATES, [False, True])
    if not (case[0].endswith("after validation") and case[3] == "no")  # which saves nothing
]
MATRIX = [pytest.param(*case, marks=[] if number % 29 == 4 else pytest.mark.slow) for number, case in enumerate(CASES)]


@pytest.mark.parametrize(("saved", "limit", "place", "validates", "reads_steps"), MATRIX)
def test_a_resumed_run_reads_what_an_uninterrupted_one_reads(
    saved, limit, place, validates, reads_steps, dataset_folder, tmp_path, order, validations
):
    saves = SAVED[saved]
    how = {"place": place, "validates": validates != "no", **VALIDATES[validates]}
    mine = {"reads_steps": reads_steps, "own": place == "module", "validates": validates != "no"}
    first, then = Model(dataset_folder, **mine), Model(dataset_folder, **mine)
    trainer = fit(first, tmp_path, saves=saves, **how, **FIRST[limit])
    if saves is None:
        trainer.save_checkpoint(tmp_path / "step=14.ckpt")
    assert first.trained == order[:14]
    start = newest(tmp_path)
    fit(then, tmp_path / "then", start=start, **how, **THEN[limit])
    step = torch.load(start, weights_only=True)["global_step"]
    assert step >= 10
    assert then.trained == order[step : 28 if limit == "epochs" else 26]
    for epoch, batches in (first.validated | then.validated).items():
        assert batches == validations[epoch] * (len(batches) // len(validations[epoch]))
    if validates != "no":
        assert {2, 3} - {3 if limit == "steps" and validates == "epochs" else None} <= set(then.validated)
