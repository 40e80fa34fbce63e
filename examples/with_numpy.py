"""Read batches of numpy arrays, without torch tensors, in one process of several.

python examples/with_numpy.py data/demo/audio
"""

import sys

import numpy as np

from headrace import StreamingDataLoader, StreamingDataset, World


def main(remote: str, rank: int = 0, world_size: int = 1) -> None:
    """Read one epoch of this process's share."""
    dataset = StreamingDataset(
        remote=remote, split="train", batch_size=8, shuffle=True, output="numpy", world=World(rank, world_size)
    )
    energy = [float(np.square(batch["audio"]).sum()) for batch in StreamingDataLoader(dataset)]
    print(f"{len(energy)} batches, mean energy {np.mean(energy):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
