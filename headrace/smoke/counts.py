"""The check `counts_match_sizes`: compares the sample counts of `sizes.json`, snapshot, indexes and loaders.

`sizes.json` is read from the storage, as by a reader that does not use snapshots.
"""

from collections.abc import Sequence

import polars as pl

from headrace.errors import HeadraceError
from headrace.format.sizes import parse_sizes
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import Snapshot
from headrace.smoke.comparing import MOST_SHOWN
from headrace.stores.storage import Storage

_SIZES = "sizes.json"


def count_faults(
    storage: Storage, snapshot: Snapshot, table: ShardTable, rows: pl.DataFrame, indexed: Sequence[int]
) -> list[str]:
    """Describe where the counts of a part differ.

    Args:
        storage: the shard folder.
        snapshot: the snapshot.
        table: all shards of the snapshot.
        rows: counts of the samples that arrived, see `headrace.smoke.run.shard_rows`.
        indexed: number of samples in the index of each shard that was read, in the order of `rows`.
    """
    names = table.names()
    counts = dict(zip(names, table.num_samples.tolist(), strict=True))
    try:
        sizes = parse_sizes(storage.read(_SIZES), f"{storage.uri}/{_SIZES}")
    except HeadraceError as error:
        return [str(error)]
    faults = [
        f"sizes.json: {name} is {sizes.get(name)}, the snapshot says {counts.get(name)}"
        for name in counts | sizes
        if sizes.get(name) != counts.get(name)
    ]
    if snapshot.num_samples != sum(counts.values()):
        faults.append(
            f"the snapshot has {snapshot.num_samples} samples, its table of shards has {sum(counts.values())}"
        )
    faults += [
        f"{name}: its index lists {found} samples, the snapshot says {counts[name]}"
        for name, found in zip(rows["shard"], indexed, strict=True)
        if found != counts[name]
    ]
    for row in rows.to_dicts():
        rejected = row["rejected"]
        if {row["samples"] + rejected, row["streamed"] + rejected} != {sizes.get(row["shard"])}:
            without = f", {rejected} have no latents" if rejected else ""
            faults.append(
                f"{row['shard']}: {row['samples']} samples arrived, {row['streamed']} by streaming{without}; "
                f"sizes.json says {sizes.get(row['shard'])}"
            )
    return faults[:MOST_SHOWN]
