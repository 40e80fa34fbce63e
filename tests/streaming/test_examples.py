"""The examples run as their first lines say, on a small data set."""

import os
import re
import subprocess
import sys

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace_dagster.build_command.repository import REPOSITORY_ROOT

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "ACCELERATE_USE_CPU": "true"}

pytestmark = pytest.mark.slow


def run(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=REPOSITORY_ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", ["with_numpy", "with_hugging_face"])
def test_an_example_runs(name, dataset_folder):
    assert run(f"examples/{name}.py", dataset_folder / "audio")


@pytest.mark.parametrize(
    ("name", "batch_size"), [("with_lightning", 8), ("with_hugging_face_trainer", 8), ("with_accelerate", 24)]
)
def test_a_trainer_goes_on_in_the_middle_of_an_epoch(name, batch_size, dataset_folder, tmp_path):
    """Two runs of ten steps, with epochs of seven or three batches, see what one loader gives."""
    audio = dataset_folder / "audio"
    shown = [run(f"examples/{name}.py", audio, tmp_path / "checkpoints") for _ in range(2)]
    loader = StreamingDataLoader(
        StreamingDataset(remote=str(audio), split="train", batch_size=batch_size, shuffle=True)
    )
    expected = [batch["keys"][0] for _ in range(7) for batch in loader]
    assert [re.findall(r"clip\d+", text) for text in shown] == [expected[:10], expected[10:20]]


def test_a_distributed_run_goes_on_with_twice_the_ranks(dataset_folder, tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    latents = dataset_folder / "latents/crepe"
    launch = ("-m", "torch.distributed.run", "--standalone")
    first = run(*launch, "--nproc-per-node", 2, "examples/train_ddp.py", latents, checkpoint)
    second = run(*launch, "--nproc-per-node", 4, "examples/train_ddp.py", latents, checkpoint)
    stopped = [tuple(map(int, re.findall(r"(?:epoch|sample) (\d+)", text))) for text in (first, second)]
    assert stopped == [(1, 0), (2, 0)]  # 53 samples are 7 batches of 8: each run ends with its epoch
