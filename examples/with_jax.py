"""Train with JAX: numpy batches of one shape, divided among all devices of all processes.

python examples/with_jax.py data/demo/audio checkpoint.json

Run it again, and it resumes where it stopped, also within an epoch, on any number of processes that divides 8.
Needs `pip install jax`.
"""

import json
import sys
from itertools import chain, islice, repeat
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from headrace import StreamingDataLoader, StreamingDataset, World

GLOBAL_BATCH = 8
NUM_FRAMES = 1 << 14
NUM_TAPS = 16
LEARNING_RATE = 0.1


def loss_of(weights: jax.Array, audio: jax.Array) -> jax.Array:
    """The mean squared error of predicting each frame of (B, N) from the frames before it."""
    count = audio.shape[1] - NUM_TAPS
    before = jnp.stack([audio[:, tap : tap + count] for tap in range(NUM_TAPS)], axis=-1)
    return jnp.mean((before @ weights - audio[:, NUM_TAPS:]) ** 2)


@jax.jit
def step(weights: jax.Array, audio: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weights after one step of gradient descent, and the loss before it."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, audio)
    return weights - LEARNING_RATE * gradient, loss


def one_shape(batch: dict) -> np.ndarray:
    """The first channel of each sample, float32 (B, NUM_FRAMES): JAX compiles again for every other shape."""
    audio = batch["audio"][:, 0]
    return np.pad(audio, [(0, 0), (0, NUM_FRAMES - audio.shape[1])])


def main(remote: str, checkpoint: Path) -> None:
    """Train for ten more steps."""
    world = World(jax.process_index(), jax.process_count())
    dataset = StreamingDataset(
        remote=remote, split="train", batch_size=GLOBAL_BATCH // world.world_size, shuffle=True,
        crop_frames=NUM_FRAMES, output="numpy", world=world,
    )  # fmt: skip
    loader = StreamingDataLoader(dataset)
    weights = jnp.zeros(NUM_TAPS)
    if checkpoint.exists():
        saved = json.loads(checkpoint.read_text())
        weights = jnp.array(saved["weights"])
        loader.load_state_dict(saved["loader"])
    rows = NamedSharding(Mesh(jax.devices(), "rows"), PartitionSpec("rows"))
    for batch in islice(chain.from_iterable(repeat(loader)), 10):  # epoch after epoch
        weights, loss = step(weights, jax.make_array_from_process_local_data(rows, one_shape(batch)))
        print(f"batch of {batch['keys'][0]}, loss {loss:.5f}")
    if world.rank == 0:
        checkpoint.write_text(json.dumps({"weights": weights.tolist(), "loader": loader.state_dict()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
