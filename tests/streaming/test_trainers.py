"""Hugging Face's Trainer, Accelerate and Fabric begin and resume at the right batch, or there is a warning."""

import itertools
import json
import pickle
import warnings
from pathlib import Path

import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset
from headrace.streaming.loader import StreamingDataLoader as Loader


def loader_of(folder, **more):
    dataset = StreamingDataset(
        remote=f"{folder}/audio", split="train", batch_size=8, shuffle=True, fields=["metadata"], **more
    )
    return StreamingDataLoader(dataset, whole_epoch_len=True)


def first_keys(batches):
    return [batch["keys"][0] for batch in batches]


@pytest.fixture(scope="module")
def order(dataset_folder):
    """The first keys of the batches of four epochs of seven batches."""
    loader = loader_of(dataset_folder)
    return [key for _ in range(4) for key in first_keys(loader)]


def test_a_fresh_loader_begins_with_the_epoch_that_a_trainer_names(dataset_folder, order):
    for epoch in (0, 2, 1):
        loader = loader_of(dataset_folder)
        loader.set_epoch(3)
        loader.set_epoch(epoch)
        assert first_keys(loader) == order[7 * epoch : 7 * epoch + 7]


def test_a_loader_that_has_begun_or_loaded_a_state_counts_itself(dataset_folder, order):
    loader = loader_of(dataset_folder)
    next(iter(loader))
    loader.set_epoch(0)
    assert first_keys(loader) == order[7:14]
    state = loader.dataset.state_dict(16)
    for epoch in (0, 1, 5):
        loader = loader_of(dataset_folder)
        loader.load_state_dict(state)
        loader.set_epoch(epoch)
        assert first_keys(loader) == order[9:14]
        loader.set_epoch(epoch + 1)
        assert first_keys(loader) == order[14:21]


def test_a_trainer_that_is_ahead_of_the_loader_is_warned(dataset_folder):
    loader = loader_of(dataset_folder)
    next(iter(loader))
    with pytest.warns(UserWarning, match="begins epoch 3, but the next one of this loader is 1: .*resumed"):
        loader.set_epoch(3)


def test_a_loader_that_is_pickled_counts_anew_and_goes_on_with_the_next_epoch(dataset_folder, order):
    loader = loader_of(dataset_folder)
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.stats.num_batches == 0
    assert len(copy) == 7
    assert first_keys(copy) == order[7:14]
    assert first_keys(batches) == order[1:7]


def test_a_loader_that_loaded_a_state_is_pickled_with_it(dataset_folder, order):
    loader = loader_of(dataset_folder)
    loader.load_state_dict(loader.dataset.state_dict(16))
    assert first_keys(pickle.loads(pickle.dumps(loader))) == order[2:7]


def test_fabric_saves_and_loads_the_place_of_the_loader(dataset_folder, tmp_path, order):
    fabric = pytest.importorskip("lightning_fabric").Fabric(accelerator="cpu")
    loader = loader_of(dataset_folder)
    batches = iter(loader)
    found = first_keys(next(batches) for _ in range(3))
    fabric.save(tmp_path / "state", {"loader": loader})
    again = loader_of(dataset_folder)
    fabric.load(tmp_path / "state", {"loader": again})
    assert found + first_keys(map(fabric.to_device, again)) + first_keys(again) == order[:14]


@pytest.mark.parametrize("number", [3, 7, 10, 14])
def test_accelerate_saves_and_loads_the_place_of_the_loader(dataset_folder, tmp_path, order, number):
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)

    def prepared():
        loader = accelerator.prepare(loader_of(dataset_folder))
        assert type(loader) is Loader
        accelerator._custom_objects.clear()
        accelerator.register_for_checkpointing(loader)
        return loader

    loader = prepared()
    batches = (batch for _ in range(3) for batch in loader)
    found = first_keys(next(batches) for _ in range(number))
    accelerator.save_state(tmp_path)
    again = prepared()
    accelerator.load_state(tmp_path)
    assert found + first_keys(again) + first_keys(again) == order[: 7 * (number // 7) + 14]


def test_accelerate_does_not_know_the_ends_of_epochs(dataset_folder):
    """Check what docs/order.md says: no additional step there, and rows of padding among gathered metrics."""
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True, gradient_accumulation_steps=2)
    loader, steps, gathered = accelerator.prepare(loader_of(dataset_folder)), [], []
    for batch in [batch for _ in range(2) for batch in loader]:
        with accelerator.accumulate():
            steps.append(accelerator.sync_gradients)
        gathered.append(accelerator.gather_for_metrics(torch.as_tensor(batch["is_padding"])))
    assert steps == [False, True] * 7
    assert int(torch.cat(gathered).sum()) == 2 * 3


def test_skipping_batches_after_a_state_was_loaded_is_warned_of(dataset_folder):
    data_loader = pytest.importorskip("accelerate.data_loader")
    loader = loader_of(dataset_folder)
    loader.load_state_dict(loader.dataset.state_dict(16))
    with pytest.warns(UserWarning, match="are skipped once more: .*ignore_data_skip=True"):
        data_loader.skip_first_batches(loader, 2)


PLACE = "loader.json"
HUGGING_FACE = {
    "mid-epoch": {"save_strategy": "steps", "save_steps": 10},
    "each epoch": {"save_strategy": "epoch"},
    "last step of an epoch": {"save_strategy": "steps", "save_steps": 14},
    "first epoch": {"save_strategy": "steps", "save_steps": 4},
}
LIMITS = ["num_train_epochs", "max_steps"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        (saved, skips, loads, LIMITS[(number + skips + loads) % 2])
        for number, saved in enumerate(HUGGING_FACE)
        for skips, loads in itertools.product([True, False], [True, False])
    ],
    ids=str,
)
def test_hugging_faces_trainer_reads_what_an_uninterrupted_run_reads_or_warns(dataset_folder, tmp_path, order, case):
    """Exact with a loaded state and ignore_data_skip, at the beginning of an epoch, and in the first epoch."""
    saved, skips, loads, limit = case
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.trained = torch.nn.Parameter(torch.zeros(1)), []

        def forward(self, keys, **_):
            self.trained.append(keys[0])
            return {"loss": self.weight.sum()}

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return self.loader

    class SavePlace(transformers.TrainerCallback):
        def on_save(self, args, state, _control, **_):
            place = Path(args.output_dir) / f"checkpoint-{state.global_step}" / PLACE
            place.write_text(json.dumps(self.loader.state_dict()))

    def train(num_epochs, start=None):
        limits = {limit: num_epochs if limit == "num_train_epochs" else 7 * num_epochs}
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            **limits,
            **HUGGING_FACE[saved],
            ignore_data_skip=not skips,
            remove_unused_columns=False,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        model, place = Model(), SavePlace()
        trainer = Trainer(model, arguments, callbacks=[place])
        trainer.loader = place.loader = loader_of(dataset_folder)
        if start and loads:
            trainer.loader.load_state_dict(json.loads((start / PLACE).read_text()))
        trainer.train(resume_from_checkpoint=start and str(start))
        return model.trained

    assert train(2) == order[:14]
    steps = {"mid-epoch": 10, "first epoch": 4}.get(saved, 14)
    start = tmp_path / f"checkpoint-{steps}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = train(4, start)
    is_exact = found == order[steps:28]
    assert is_exact == (steps == 14 or (loads != skips and (loads or steps < 7)))
    if skips:  # else, without a state, the user wants the epoch from its beginning
        said = [one for one in caught if "skipped once more" in str(one.message) or "resumed" in str(one.message)]
        assert is_exact or said
