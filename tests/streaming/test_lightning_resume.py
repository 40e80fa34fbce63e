"""Lightning resumes at the right batch, whatever saved the checkpoint and whatever Lightning called before."""

import contextlib
import pickle
import sys
import types
from importlib.metadata import entry_points

import pytest

from headrace import FrameBudget, StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError, StateError
from headrace.streaming.lightning_resume import callbacks

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


FIRST = {"epochs": {"max_epochs": 2}, "steps": {"max_steps": 14}}
THEN = {"epochs": {"max_epochs": 4}, "steps": {"max_steps": 26}}
PLACES = ["module", "datamodule", "argument"]
VALIDATES = {"no": {}, "epochs": {}, "halves": {"val_check_interval": 0.5}}


def case_of(number, saved, at, place):
    """One of the cases in which any two settings meet."""
    limit, validates, reads_steps = [*FIRST][(number + at) % 2], [*VALIDATES][(number + at) % 3], number + (at + 1) // 2
    if saved.endswith("after validation") and validates == "no":  # which saves nothing
        validates = "epochs"
    return saved, limit, place, validates, reads_steps % 2 == 1


CASES = [case_of(*saved, *place) for saved in enumerate(SAVED) for place in enumerate(PLACES)]
MATRIX = [
    pytest.param(case, marks=[] if number % 3 == 1 else pytest.mark.slow, id=" ".join(map(str, case)))
    for number, case in enumerate(CASES)
]


@pytest.fixture(scope="module")
def references(dataset_folder):
    """The first keys of the batches of four epochs, and of the validation batches of each epoch."""
    train, valid = loader_of(dataset_folder), loader_of(dataset_folder, "test", shuffle=True, batch_size=4)
    order = [batch["keys"][0] for _ in range(4) for batch in train]
    return order, [[batch["keys"][0] for batch in valid] for _ in range(4)]


@pytest.mark.parametrize("case", MATRIX)
def test_a_resumed_run_reads_what_an_uninterrupted_one_reads(case, dataset_folder, tmp_path, references):
    saved, limit, place, validates, reads_steps = case
    order, validations = references
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


@pytest.fixture
def order(references):
    return references[0]


def test_lightning_finds_the_callback_itself():
    for group in ("pytorch_lightning.callbacks_factory", "lightning.pytorch.callbacks_factory"):
        assert [one.value for one in entry_points(group=group, name="headrace")] == [
            "headrace.streaming.lightning_resume:callbacks"
        ]


def test_the_callback_travels_to_processes_that_lightning_starts():
    (callback,) = callbacks()
    callback._states = ({"epoch": 1},)
    copy = pickle.loads(pickle.dumps(callback))
    assert copy._states == ({"epoch": 1},)
    assert isinstance(copy, lightning.Callback)


class OtherCallback:
    """The base of callbacks under the other name."""

    def setup(self, *_):
        raise AssertionError("the hook of Headrace comes first")


@pytest.fixture
def both_names(monkeypatch):
    """Lightning as it is when a process has imported it under both names, which are two packages."""
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["lightning.pytorch.callbacks"].Callback = OtherCallback


def test_a_trainer_of_either_name_accepts_the_callback(both_names):
    (callback,) = callbacks()
    for one in (callback, pickle.loads(pickle.dumps(callback))):
        assert isinstance(one, lightning.Callback)
        assert isinstance(one, OtherCallback)
        one.setup(object(), None, "validate")


@pytest.mark.parametrize("name", ["pytorch_lightning", "lightning.pytorch"])
def test_under_one_name_the_other_is_not_imported(both_names, monkeypatch, name):
    other = {"pytorch_lightning": "lightning.pytorch", "lightning.pytorch": "pytorch_lightning"}[name]
    monkeypatch.delitem(sys.modules, other)
    (callback,) = callbacks()
    assert isinstance(callback, lightning.Callback) == (name == "pytorch_lightning")
    assert isinstance(callback, OtherCallback) == (name == "lightning.pytorch")
    assert other not in sys.modules


def test_a_process_that_was_started_imports_the_packages_of_the_callback(both_names, monkeypatch):
    (callback,) = callbacks()
    sent = pickle.dumps(callback)
    monkeypatch.setattr("headrace.streaming.lightning_resume._LIGHTNING", ())
    assert isinstance(pickle.loads(sent), lightning.Callback)


def test_a_batch_that_failed_comes_again(dataset_folder, tmp_path, order):
    class Failing(Model):
        def training_step(self, batch, number):
            loss = super().training_step(batch, number)
            if len(self.trained) == 10:
                raise RuntimeError("out of memory")
            return loss

    keeps = lightning.callbacks.OnExceptionCheckpoint(tmp_path)
    first, then = Failing(dataset_folder), Model(dataset_folder)
    with pytest.raises(RuntimeError, match="out of memory"):
        fit(first, tmp_path, more=[keeps], max_epochs=2)
    fit(then, tmp_path, start=tmp_path / "on_exception.ckpt", max_epochs=2)
    assert first.trained == order[:10]
    assert then.trained == order[9:14]


@pytest.mark.parametrize(
    "limits", [{"max_epochs": 5}, {"max_epochs": 5, "reload_dataloaders_every_n_epochs": 1}, {"max_steps": 40}]
)
def test_epochs_of_different_lengths_are_read_whole(dataset_folder, tmp_path, limits):
    """A frame budget over a part of a pass gives 9, 9, 8, 9 and 8 batches."""
    how = {"epoch_size": 70, "batching": FrameBudget(8 * 900, batch_multiple=8)}
    loader = loader_of(dataset_folder, **how)
    lengths = [len(loader)]
    expected = [batch["keys"][0] for _ in range(5) for batch in loader]
    assert lengths[0] * 5 != len(expected)
    first, then = Model(dataset_folder, **how), Model(dataset_folder, **how)
    fit(first, tmp_path, saves={"every_n_train_steps": 23}, max_steps=23)
    fit(then, tmp_path / "then", start=newest(tmp_path), **limits)
    assert first.trained + then.trained == expected[: limits.get("max_steps")]


@pytest.mark.medium
def test_each_of_several_loaders_goes_on_where_it_was(dataset_folder, tmp_path):
    def both():
        return {"long": loader_of(dataset_folder), "short": loader_of(dataset_folder, "test", shuffle=True)}

    class Two(Model):
        train_dataloader = staticmethod(both)

        def training_step(self, batch, _number):
            self.trained.append((batch["long"]["keys"][0], batch["short"]["keys"][0]))
            return self.weight.sum()

    whole, first, then = (Two(dataset_folder, own=False) for _ in range(3))
    fit(whole, tmp_path, max_epochs=3)
    fit(first, tmp_path, saves={}, max_epochs=1)
    fit(then, tmp_path / "then", start=newest(tmp_path), max_epochs=3)
    assert first.trained + then.trained == whole.trained
    one = Model(dataset_folder)
    with pytest.raises(StateError, match="states of 2 loaders, but there are 1"):
        fit(one, tmp_path / "one", start=newest(tmp_path), max_epochs=3)


def test_a_loader_that_lightning_makes_anew_for_each_epoch_reads_the_next_one(dataset_folder, tmp_path, order):
    model = Model(dataset_folder)
    fit(model, tmp_path, max_epochs=3, reload_dataloaders_every_n_epochs=1)
    assert model.trained == order[:21]


@pytest.mark.parametrize(("asked", "under"), [(None, 7), (True, 7), (False, 4)])
@pytest.mark.parametrize("fails", [False, True])
def test_the_length_is_the_whole_epochs_while_a_trainer_trains(dataset_folder, tmp_path, asked, under, fails):
    """Lightning ends an epoch when its own count has reached the length."""
    lengths = []

    class Lengths(Model):
        def training_step(self, batch, number):
            lengths.append(len(loader))
            if fails and len(lengths) == 3:
                raise RuntimeError("out of memory")
            return super().training_step(batch, number)

    def resumed():
        loader = loader_of(dataset_folder, whole_epoch_len=asked)
        loader.load_state_dict(loader.dataset.state_dict(24))
        return loader

    loader = resumed()
    assert len(loader) == (7 if asked else 4)
    with pytest.raises(RuntimeError, match="out of memory") if fails else contextlib.nullcontext():
        fit(Lengths(dataset_folder, own=False), tmp_path, given=loader, max_steps=3)
    assert lengths == [under] * 3
    assert len(resumed()) == (7 if asked else 4)


@pytest.mark.parametrize("saves", [{"every_n_train_steps": 3}, {"every_n_train_steps": 6}, {}], ids=str)
@pytest.mark.parametrize("limit", FIRST)
def test_epochs_with_a_limit_are_those_of_an_uninterrupted_run(dataset_folder, tmp_path, order, saves, limit):
    stop, end = ({"max_epochs": 1}, {"max_epochs": 3}) if limit == "epochs" else ({"max_steps": 6}, {"max_steps": 18})
    first, then = Model(dataset_folder), Model(dataset_folder)
    fit(first, tmp_path, saves=saves | {"save_top_k": -1}, limit_train_batches=6, **stop)
    start = min(tmp_path.glob("*.ckpt"))
    fit(then, tmp_path / "then", start=start, limit_train_batches=6, **end)
    expected = [*order[:6], *order[7:13], *order[14:20]]
    assert first.trained == expected[:6]
    assert then.trained == expected[torch.load(start, weights_only=True)["global_step"] :]


@pytest.mark.parametrize("num_steps", [0, 2])
def test_one_dataset_for_training_and_validation_is_an_error(dataset_folder, num_steps):
    loader, model = loader_of(dataset_folder), Model(dataset_folder, own=False)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(accelerator="cpu", max_epochs=2, num_sanity_val_steps=num_steps, **quiet)
    with pytest.raises(ConfigError, match="one StreamingDataset is read for training and for validation"):
        trainer.fit(model, loader, StreamingDataLoader(loader.dataset))


def test_a_loader_that_another_one_ended_in_mid_epoch_begins_its_next_one(dataset_folder, tmp_path):
    class Two(Model):
        def train_dataloader(self):
            return {"long": loader_of(self.folder), "short": loader_of(self.folder, batch_size=12)}

        def training_step(self, batch, _number):
            self.trained.append((batch["long"]["keys"][0], batch["short"]["keys"][0]))
            return self.weight.sum()

    whole, first, then = (Two(dataset_folder, own=False) for _ in range(3))
    fit(whole, tmp_path, max_epochs=3)
    fit(first, tmp_path, saves={}, max_epochs=1)
    fit(then, tmp_path / "then", start=newest(tmp_path), max_epochs=3)
    assert first.trained + then.trained == whole.trained
