"""Questions to a run of 10^9 samples, and by a column of 10^6; answers compared with enumeration at 10^6.

    python benchmarks/asked.py [--tars 1000] [--folder DIR] [--json PATH]

Measured at the end of 2.9 epochs of a synthetic snapshot of 10^6 shards (`open.make`): the bill by stream and split,
and the rows of 20 samples, by their numbers, in all epochs. Then the rows of 10^5 random samples of
10^6, each asked alone, are compared with those of all batches of an epoch; and of 2,000 in a mixture of two streams. At
last the bill by a column of 10^6 samples in sparse tars of others (`tar_sets.write`), with their indexes and columns.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.open import make
from headrace import StreamingDataset
from headrace.streaming.asked import answers
from headrace.streaming.asked.asked_run import AskedRun
from headrace.streaming.asked.delivered import DeliveredRows
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import OrderSpec
from headrace.streaming.order.state import OrderState
from headrace.upkeep.tar_indexes import index_tars

_EPOCHS, _SHARE, _BATCH = 2, 0.9, 256
_KEYS, _ASKED = 100_000, 20


def main() -> None:
    """Print the results and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tars", type=int, default=1000, help="of 1,000 samples")
    parser.add_argument("--folder", help="where files are written for a while")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/asked.json"))
    given = parser.parse_args()
    results: dict[str, Any] = {"cores": os.cpu_count(), "python": platform.python_version()}
    results |= {"load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(prefix="headrace-asked-", dir=given.folder) as name:
        results["at_10^9"] = at_a_billion(Path(name) / "billion")
        results["enumerated_at_10^6"] = enumerated([1000], _KEYS)
        results["enumerated_mixture"] = enumerated([700, 300], _KEYS // 100)
        results["by_column"] = by_column(Path(name), given.tars)
    print(json.dumps(results, indent=1))
    given.json.write_text(json.dumps(results, indent=1) + "\n")


def state_of(dataset: StreamingDataset) -> OrderState:
    """The state of a run in the epoch after `_EPOCHS` of them."""
    state = dataset.state_dict(int(_SHARE * dataset.size) // _BATCH * _BATCH)
    return OrderState.from_json(json.loads(json.dumps(state | {"epoch": _EPOCHS})))


def timed(step: Any, *words: Any) -> tuple[Any, dict[str, float]]:  # noqa: ANN401 - anything
    """Result of a call, and the seconds and CPU seconds that it took."""
    begun, cpu = time.perf_counter(), time.process_time()
    found = step(*words)
    seconds = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - cpu}
    return found, {name: round(value, 4) for name, value in seconds.items()}


def at_a_billion(folder: Path) -> dict[str, Any]:
    """A bill of 10^9 samples in 10^6 shards, and rows of single samples, with the time to open the run apart."""
    make(folder, 1_000_000)
    state = state_of(StreamingDataset(remote=str(folder), batch_size=_BATCH, shuffle=True))
    run, opening = timed(AskedRun.opened, state, [str(folder)])
    made, bill = timed(answers.bill, run)
    (name,) = run.streams.names
    size = run.streams.reading.readers[0].primary.shards.num_samples
    epochs, counted = timed(lambda: list(run.epochs()))
    found = [
        timed(lambda sample=sample: [place for epoch in epochs for place in epoch.rows_of(name, sample)])
        for sample in np.random.default_rng(0).integers(0, size, (_ASKED, 1))
    ]
    assert sum(row.samples for row in made.rows) == _EPOCHS * size + state.sample_in_epoch
    assert all(len(places) in {_EPOCHS, _EPOCHS + 1} for places, _ in found)
    return {
        "opening": opening,
        "bill": bill,
        "epochs": counted,
        "rows_of_the_first_sample": found[0][1],
        "rows_of_a_later_sample": {
            name: max(cost[name] for _, cost in found[1:]) for name in ("seconds", "cpu_seconds")
        },
    }


def enumerated(sizes: list[int], num_keys: int) -> dict[str, Any]:
    """Rows of random samples against those of all batches of an unfinished epoch.

    Args:
        sizes: shards of 1,000 samples of each stream; their samples are mixed by these proportions.
        num_keys: number of samples of each stream that are asked for.
    """
    spec, random = OrderSpec(_BATCH, shuffle=True, num_canonical_nodes=8), np.random.default_rng(1)
    streams = tuple(StreamSpec(str(number), np.full(size, 1000)) for number, size in enumerate(sizes))
    order = EpochOrder(spec, Mixture(streams), 1)
    num_batches = int(_SHARE * order.num_batches)
    places = places_of(order, num_batches)
    rows = DeliveredRows(spec, 1, order.phases, {stream.name: stream.shard_sizes for stream in streams})
    rows.before(order.batch_start(num_batches))
    asked = [
        (number, sample)
        for number, stream in enumerate(streams)
        for sample in random.choice(stream.num_samples, num_keys, replace=False).tolist()
    ]
    cpu = time.process_time()
    answered = [rows.rows_of(str(number), np.array([sample])) for number, sample in asked]
    cpu_ms = 1e3 * (time.process_time() - cpu) / len(asked)
    equal = sum(found == places.get(one, []) for one, found in zip(asked, answered, strict=True))
    return {"asked": len(asked), "equal": equal, "rows": sum(map(len, places.values())), "cpu_ms": round(cpu_ms, 2)}


def places_of(order: EpochOrder, num_batches: int) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Stream and sample → its batches and rows, from the batches."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for batch in range(num_batches):
        rows, start = order.batch(batch), order.batch_start(batch)
        for place, one in enumerate(zip(rows.stream_ids.tolist(), rows.sample_ids.tolist(), strict=True)):
            if one[1] >= 0:
                found.setdefault(one, []).append((batch, start + place))
    return found


def by_column(folder: Path, num_tars: int) -> dict[str, Any]:
    """A bill by a text and by a number of tars of others."""
    sys.path.insert(0, str(Path(__file__).parent))
    from benchmarks.tar_sets import write  # noqa: PLC0415 - its own imports are relative to this folder

    write(folder / "tars", num_tars, 1000)
    into = str(folder / "into")
    index_tars(str(folder / "tars"), columns=True, into=into)
    state = state_of(StreamingDataset(remote=into, columns=["metadata"], batch_size=_BATCH, shuffle=True))
    found: dict[str, Any] = {"samples": 1000 * num_tars}
    for column in ("lang", "snr"):
        run, opening = timed(lambda: AskedRun.opened(state, [into], columns=["metadata"]))
        made, cost = timed(answers.bill, run, column)
        assert sum(row.samples for row in made.rows) == _EPOCHS * 1000 * num_tars + state.sample_in_epoch
        found[column] = {"groups": len(made.rows), "opening": opening, "bill": cost}
    return found


if __name__ == "__main__":
    main()
