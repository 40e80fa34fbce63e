"""`pip install` of the wheel into an empty environment is enough to adopt a corpus, build it and train on it."""

import os
import subprocess

import pytest

from headrace.testing import write_corpus
from tests.support.environments import make_environment
from tests.support.wheels import ROOT, unpacked_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRAINING = """
import sys
import torch, headrace
from headrace import StreamingDataLoader, StreamingDataset

assert sys.prefix in headrace.__file__, headrace.__file__
torch.manual_seed(0)
loader = StreamingDataLoader(StreamingDataset(remote=sys.argv[1], batch_size=2, shuffle=True))
network = torch.nn.Conv1d(1, 1, 9)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
epochs = []
for epoch in range(8):
    losses = []
    for batch in loader:
        loss = (network(batch["audio"]) - batch["audio"][..., 4:-4]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    epochs.append(sum(losses) / len(losses))
print(torch.__version__, len(losses) * len(epochs), epochs[-1] < 0.7 * epochs[0])
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The programs of an environment that has the wheel, a torch for the CPU, and what they require."""
    folder = tmp_path_factory.mktemp("empty")
    unpacked_wheel(folder)
    (wheel,) = folder.glob("headrace-*.whl")
    constraints = ["-c", str(ROOT / "constraints.txt")]
    return make_environment(folder / "venv", *constraints, "torch", f"headrace[dagster] @ {wheel.as_uri()}")


def test_a_corpus_is_adopted_built_and_trained_on(environment, tmp_path):
    for recording in write_corpus(tmp_path, 6).iterdir():
        os.utime(recording, (0, 0))  # an upload that has ended long ago
    variables = {name: value for name, value in os.environ.items() if name not in {"DAGSTER_HOME", "PYTHONPATH"}}

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    run(environment / "headrace", "adopt", "recordings", "--yaml", "tiny.yaml", "--output", "output")
    run(environment / "headrace", "build", "tiny.yaml")
    version, steps, is_better = run(environment / "python", "-c", TRAINING, "output").split()
    assert version.startswith("2.13.0")
    assert (int(steps), is_better) == (24, "True")
