"""Draws docs/images/order.png: where in storage the samples of an epoch are, in the order in which they arrive."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import OrderSpec, ShuffleAlgo

NUM_SHARDS, SAMPLES_PER_SHARD, NUM_NODES = 48, 50, 8
SPECS = {
    "shuffle=False": OrderSpec(8, num_canonical_nodes=NUM_NODES),
    "shuffle_algo='block', blocks of 16 shards": OrderSpec(
        8, shuffle=True, num_canonical_nodes=NUM_NODES, shuffle_block_size=16 * SAMPLES_PER_SHARD
    ),
    "shuffle_algo='full'": OrderSpec(8, shuffle=True, shuffle_algo=ShuffleAlgo.FULL, num_canonical_nodes=NUM_NODES),
}


def main() -> None:
    """Write the picture."""
    mixture = Mixture((StreamSpec("all", np.full(NUM_SHARDS, SAMPLES_PER_SHARD)),))
    figure, panels = plt.subplots(1, 3, figsize=(12, 4), sharey=True, layout="constrained")
    for panel, (title, spec) in zip(panels, SPECS.items(), strict=True):
        order = EpochOrder(spec, mixture, 0)
        samples = order.positions(0, order.num_rows).sample_ids
        rows = np.arange(len(samples))
        ours = rows % 4 == 0  # rank 0 of 4
        panel.scatter(rows[~ours], samples[~ours] / SAMPLES_PER_SHARD, s=1, color="0.8", rasterized=True)
        panel.scatter(rows[ours], samples[ours] / SAMPLES_PER_SHARD, s=3, color="C0", rasterized=True)
        panel.set(title=title, xlabel="row of the epoch", xlim=(0, len(rows)), ylim=(0, NUM_SHARDS))
    panels[0].set_ylabel("shard, in storage order")
    figure.suptitle("One epoch on four ranks: grey is every sample, blue what rank 0 reads")
    target = Path("docs/images/order.png")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=90)


if __name__ == "__main__":
    main()
