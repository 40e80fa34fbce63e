"""Train under Hugging Face's Trainer with a loader that resumes within an epoch.

python examples/with_hugging_face_trainer.py data/demo/audio CHECKPOINTS

Run it again, and it resumes from the newest checkpoint. The state of the loader is saved beside each checkpoint. With
`ignore_data_skip` the Trainer does not read and discard the batches before that state.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from headrace import StreamingDataLoader, StreamingDataset

PLACE = "loader.json"


class StreamingTrainer(Trainer):
    """A Trainer that uses the loader as it is, because the loader reads the share of one rank already."""

    def __init__(self, model: torch.nn.Module, arguments: TrainingArguments, loader: StreamingDataLoader) -> None:
        super().__init__(model, arguments)
        self.loader = loader
        self.add_callback(SavePlace(loader))

    def get_train_dataloader(self) -> StreamingDataLoader:
        """The loader, without Accelerate, which would divide it among the ranks a second time."""
        return self.loader


class SavePlace(TrainerCallback):
    """Saves the state of the loader with each checkpoint."""

    def __init__(self, loader: StreamingDataLoader) -> None:
        self.loader = loader

    def on_save(self, args: TrainingArguments, state: TrainerState, *_: object, **__: object) -> None:
        """Save the state, which is the same on all ranks, beside the checkpoint."""
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            (checkpoint / PLACE).write_text(json.dumps(self.loader.state_dict()))


class Model(torch.nn.Module):
    """A minimal model."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Conv1d(1, 4, kernel_size=64, stride=32)

    def forward(self, audio: torch.Tensor, keys: list[str], **_: object) -> dict[str, torch.Tensor]:
        """The loss of one batch."""
        print(f"batch of {keys[0]}")
        return {"loss": self.network(audio).square().mean()}


def main(remote: str, folder: str) -> None:
    """Train for ten more steps."""
    last = get_last_checkpoint(folder) if Path(folder).exists() else None
    done = int(last.rpartition("-")[2]) if last else 0
    arguments = TrainingArguments(
        folder, max_steps=done + 10, save_steps=10, ignore_data_skip=True, remove_unused_columns=False, report_to=[]
    )
    dataset = StreamingDataset(remote=remote, split="train", batch_size=8, shuffle=True)
    loader = StreamingDataLoader(dataset, whole_epoch_len=True)
    if last:
        loader.load_state_dict(json.loads((Path(last) / PLACE).read_text()))
    StreamingTrainer(Model(), arguments, loader).train(resume_from_checkpoint=last)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
