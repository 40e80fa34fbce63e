"""Lightning resumes at the right batch, whatever saved the checkpoint and whatever Lightning called before."""

import contextlib
import pickle
import sys
import types
from importlib.metadata import entry_points

import pytest

from headrace import FrameBudget, StreamingDataLoader
from headrace.errors import ConfigError, StateError
from headrace.streaming.lightning_resume import callbacks

pytestmark = [
    pytest.mark.medium,
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
def jobs():
    """Models and a trainer; without Lightning, their tests are skipped."""
    pytest.importorskip("pytorch_lightning")
    from tests.support import lightning_jobs

    return lightning_jobs


@pytest.fixture(scope="module")
def references(dataset_folder, jobs):
    """The first keys of the batches of four epochs, and of the validation batches of each epoch."""
    train, valid = jobs.loader_of(dataset_folder), jobs.loader_of(dataset_folder, "test", shuffle=True, batch_size=4)
    order = [batch["keys"][0] for _ in range(4) for batch in train]
    return order, [[batch["keys"][0] for batch in valid] for _ in range(4)]


@pytest.mark.parametrize("case", MATRIX)
def test_a_resumed_run_reads_what_an_uninterrupted_one_reads(case, dataset_folder, tmp_path, references, jobs):
    saved, limit, place, validates, reads_steps = case
    order, validations = references
    saves = SAVED[saved]
    how = {"place": place, "validates": validates != "no", **VALIDATES[validates]}
    mine = {"reads_steps": reads_steps, "own": place == "module", "validates": validates != "no"}
    first, then = jobs.Model(dataset_folder, **mine), jobs.Model(dataset_folder, **mine)
    trainer = jobs.fit(first, tmp_path, saves=saves, **how, **FIRST[limit])
    if saves is None:
        trainer.save_checkpoint(tmp_path / "step=14.ckpt")
    assert first.trained == order[:14]
    start = jobs.newest(tmp_path)
    jobs.fit(then, tmp_path / "then", start=start, **how, **THEN[limit])
    step = jobs.torch.load(start, weights_only=True)["global_step"]
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


def test_the_callback_travels_to_processes_that_lightning_starts(jobs):
    (callback,) = callbacks()
    callback._states = ({"epoch": 1},)
    copy = pickle.loads(pickle.dumps(callback))
    assert copy._states == ({"epoch": 1},)
    assert isinstance(copy, jobs.lightning.Callback)


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


def test_a_trainer_of_either_name_accepts_the_callback(both_names, jobs):
    (callback,) = callbacks()
    for one in (callback, pickle.loads(pickle.dumps(callback))):
        assert isinstance(one, jobs.lightning.Callback)
        assert isinstance(one, OtherCallback)
        one.setup(object(), None, "validate")


@pytest.mark.parametrize("name", ["pytorch_lightning", "lightning.pytorch"])
def test_under_one_name_the_other_is_not_imported(both_names, monkeypatch, name, jobs):
    other = {"pytorch_lightning": "lightning.pytorch", "lightning.pytorch": "pytorch_lightning"}[name]
    monkeypatch.delitem(sys.modules, other)
    (callback,) = callbacks()
    assert isinstance(callback, jobs.lightning.Callback) == (name == "pytorch_lightning")
    assert isinstance(callback, OtherCallback) == (name == "lightning.pytorch")
    assert other not in sys.modules


def test_a_process_that_was_started_imports_the_packages_of_the_callback(both_names, monkeypatch, jobs):
    (callback,) = callbacks()
    sent = pickle.dumps(callback)
    monkeypatch.setattr("headrace.streaming.lightning_resume._LIGHTNING", ())
    assert isinstance(pickle.loads(sent), jobs.lightning.Callback)


def test_a_batch_that_failed_comes_again(dataset_folder, tmp_path, order, jobs):
    class Failing(jobs.Model):
        def training_step(self, batch, number):
            loss = super().training_step(batch, number)
            if len(self.trained) == 10:
                raise RuntimeError("out of memory")
            return loss

    keeps = jobs.lightning.callbacks.OnExceptionCheckpoint(tmp_path)
    first, then = Failing(dataset_folder), jobs.Model(dataset_folder)
    with pytest.raises(RuntimeError, match="out of memory"):
        jobs.fit(first, tmp_path, more=[keeps], max_epochs=2)
    jobs.fit(then, tmp_path, start=tmp_path / "on_exception.ckpt", max_epochs=2)
    assert first.trained == order[:10]
    assert then.trained == order[9:14]


@pytest.mark.parametrize(
    "limits", [{"max_epochs": 5}, {"max_epochs": 5, "reload_dataloaders_every_n_epochs": 1}, {"max_steps": 40}]
)
def test_epochs_of_different_lengths_are_read_whole(dataset_folder, tmp_path, limits, jobs):
    """A frame budget over a part of a pass gives 9, 9, 8, 9 and 8 batches."""
    how = {"epoch_size": 70, "batching": FrameBudget(8 * 900, batch_multiple=8)}
    loader = jobs.loader_of(dataset_folder, **how)
    lengths = [len(loader)]
    expected = [batch["keys"][0] for _ in range(5) for batch in loader]
    assert lengths[0] * 5 != len(expected)
    first, then = jobs.Model(dataset_folder, **how), jobs.Model(dataset_folder, **how)
    jobs.fit(first, tmp_path, saves={"every_n_train_steps": 23}, max_steps=23)
    jobs.fit(then, tmp_path / "then", start=jobs.newest(tmp_path), **limits)
    assert first.trained + then.trained == expected[: limits.get("max_steps")]


def test_each_of_several_loaders_goes_on_where_it_was(dataset_folder, tmp_path, jobs):
    def both():
        return {"long": jobs.loader_of(dataset_folder), "short": jobs.loader_of(dataset_folder, "test", shuffle=True)}

    class Two(jobs.Model):
        train_dataloader = staticmethod(both)

        def training_step(self, batch, _number):
            self.trained.append((batch["long"]["keys"][0], batch["short"]["keys"][0]))
            return self.weight.sum()

    whole, first, then = (Two(dataset_folder, own=False) for _ in range(3))
    jobs.fit(whole, tmp_path, max_epochs=3)
    jobs.fit(first, tmp_path, saves={}, max_epochs=1)
    jobs.fit(then, tmp_path / "then", start=jobs.newest(tmp_path), max_epochs=3)
    assert first.trained + then.trained == whole.trained
    one = jobs.Model(dataset_folder)
    with pytest.raises(StateError, match="states of 2 loaders, but there are 1"):
        jobs.fit(one, tmp_path / "one", start=jobs.newest(tmp_path), max_epochs=3)


def test_a_loader_that_lightning_makes_anew_for_each_epoch_reads_the_next_one(dataset_folder, tmp_path, order, jobs):
    model = jobs.Model(dataset_folder)
    jobs.fit(model, tmp_path, max_epochs=3, reload_dataloaders_every_n_epochs=1)
    assert model.trained == order[:21]


@pytest.mark.parametrize(("asked", "under"), [(None, 7), (True, 7), (False, 4)])
@pytest.mark.parametrize("fails", [False, True])
def test_the_length_is_the_whole_epochs_while_a_trainer_trains(dataset_folder, tmp_path, asked, under, fails, jobs):  # noqa: PLR0913, PLR0917 - cases
    """Lightning ends an epoch when its own count has reached the length."""
    lengths = []

    class Lengths(jobs.Model):
        def training_step(self, batch, number):
            lengths.append(len(loader))
            if fails and len(lengths) == 3:
                raise RuntimeError("out of memory")
            return super().training_step(batch, number)

    def resumed():
        loader = jobs.loader_of(dataset_folder, whole_epoch_len=asked)
        loader.load_state_dict(loader.dataset.state_dict(24))
        return loader

    loader = resumed()
    assert len(loader) == (7 if asked else 4)
    with pytest.raises(RuntimeError, match="out of memory") if fails else contextlib.nullcontext():
        jobs.fit(Lengths(dataset_folder, own=False), tmp_path, given=loader, max_steps=3)
    assert lengths == [under] * 3
    assert len(resumed()) == (7 if asked else 4)


@pytest.mark.parametrize("saves", [{"every_n_train_steps": 3}, {"every_n_train_steps": 6}, {}], ids=str)
@pytest.mark.parametrize("limit", FIRST)
def test_epochs_with_a_limit_are_those_of_an_uninterrupted_run(dataset_folder, tmp_path, order, saves, limit, jobs):  # noqa: PLR0913, PLR0917 - cases
    stop, end = ({"max_epochs": 1}, {"max_epochs": 3}) if limit == "epochs" else ({"max_steps": 6}, {"max_steps": 18})
    first, then = jobs.Model(dataset_folder), jobs.Model(dataset_folder)
    jobs.fit(first, tmp_path, saves=saves | {"save_top_k": -1}, limit_train_batches=6, **stop)
    start = min(tmp_path.glob("*.ckpt"))
    jobs.fit(then, tmp_path / "then", start=start, limit_train_batches=6, **end)
    expected = [*order[:6], *order[7:13], *order[14:20]]
    assert first.trained == expected[:6]
    assert then.trained == expected[jobs.torch.load(start, weights_only=True)["global_step"] :]


@pytest.mark.parametrize("num_steps", [0, 2])
def test_one_dataset_for_training_and_validation_is_an_error(dataset_folder, num_steps, jobs):
    loader, model = jobs.loader_of(dataset_folder), jobs.Model(dataset_folder, own=False)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = jobs.lightning.Trainer(accelerator="cpu", max_epochs=2, num_sanity_val_steps=num_steps, **quiet)
    with pytest.raises(ConfigError, match="one StreamingDataset is read for training and for validation"):
        trainer.fit(model, loader, StreamingDataLoader(loader.dataset))


def test_a_loader_that_another_one_ended_in_mid_epoch_begins_its_next_one(dataset_folder, tmp_path, jobs):
    class Two(jobs.Model):
        def train_dataloader(self):
            return {"long": jobs.loader_of(self.folder), "short": jobs.loader_of(self.folder, batch_size=12)}

        def training_step(self, batch, _number):
            self.trained.append((batch["long"]["keys"][0], batch["short"]["keys"][0]))
            return self.weight.sum()

    whole, first, then = (Two(dataset_folder, own=False) for _ in range(3))
    jobs.fit(whole, tmp_path, max_epochs=3)
    jobs.fit(first, tmp_path, saves={}, max_epochs=1)
    jobs.fit(then, tmp_path / "then", start=jobs.newest(tmp_path), max_epochs=3)
    assert first.trained + then.trained == whole.trained
