"""Measures the cost of the order and its mixing, beside MosaicML's planning.

    python benchmarks/order.py [--max-samples 1e9] [--reference FOLDER] [--json PATH] [--parts PART ...]

Cost: seconds and peak memory until the first batch, from the beginning and at 90% of an epoch, each in a fresh process
(numpy's import is not counted). Quality: how evenly global batches draw from shards, how many rows are between two
draws from one shard, and how many shards a host of 8 ranks has open at a time. Padding: what length buckets leave of it
in the batches of 8 ranks. Budget: CPU time until the first batch under a frame budget, and what it leaves of padding.
Mixtures: CPU time of a global batch of 1,024 rows, by the number of streams.

`--reference` is a folder with MosaicML's package, whose shuffling and partitioning run without its dependencies
(``pip install --no-deps --target FOLDER mosaicml-streaming==0.13.0``). Without it, that part is not measured.
"""

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.format.manifests.length_census import LengthCensus, count_lengths
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder, Rows
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, LengthBuckets, OrderSpec, ShuffleAlgo

SAMPLES_PER_SHARD = 1000
GLOBAL_BATCH = 256
REFERENCE_LIMIT = 50_000_000  # 6 s and 1.6 GB there; it grows with the epoch

Order = NDArray[np.int64]


def main() -> None:
    """Print the tables and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-samples", type=float, default=1e9)
    parser.add_argument("--reference", type=Path, help="folder with MosaicML's package")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/order.json"))
    parser.add_argument("--parts", nargs="+", help="cost, quality, methods, padding, budget, mixtures; all by default")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # one measurement, in a process of its own
    arguments = parser.parse_args()
    if arguments.one:
        system, num_samples, start = arguments.one
        print(json.dumps(_measure(system, int(num_samples), float(start), arguments.reference)))
        return
    parts: dict[str, Callable[[], object]] = {
        "cost": lambda: _cost(int(arguments.max_samples), arguments.reference),
        "quality": lambda: _quality(arguments.reference),
        "methods": _methods,
        "padding": _padding,
        "budget": lambda: _budget(int(arguments.max_samples)),
        "mixtures": _mixtures,
    }
    result = {"hardware": _hardware()} | {name: parts[name]() for name in arguments.parts or parts}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def _cost(max_samples: int, reference: Path | None) -> list[dict[str, Any]]:
    print("| system | samples | shards | from | first batch ms | CPU ms | peak MiB | next batches µs |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    sizes = [size for size in (10**6, 10**7, 5 * 10**7, 10**8, 10**9) if size <= max_samples]
    for system in ["headrace", "mosaicml"] if reference else ["headrace"]:
        for num_samples in sizes:
            if system == "mosaicml" and num_samples > REFERENCE_LIMIT:
                continue
            for start in (0.0, 0.9):
                row = _in_own_process(system, num_samples, start, reference)
                rows.append(row)
                print(
                    f"| {system} | {num_samples:.0e} | {num_samples // SAMPLES_PER_SHARD:.0e} | {start:.0%} | "
                    f"{row['first_batch_seconds'] * 1000:.1f} | {row['cpu_seconds'] * 1000:.1f} | "
                    f"{row['peak_bytes'] / 2**20:.0f} | "
                    f"{row['batch_seconds'] * 1e6:.0f} |"
                )
    if not reference:
        print("mosaicml: not measured (--reference)")
    return rows


def _in_own_process(system: str, num_samples: int, start: float, reference: Path | None) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", system, str(num_samples), str(start)]
    if reference:
        command += ["--reference", str(reference)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    runs = [json.loads(subprocess.check_output(command, env=environment)) for _ in range(3)]
    median: dict[str, Any] = sorted(runs, key=lambda run: float(run["first_batch_seconds"]))[1]
    return median


def _measure(system: str, num_samples: int, start: float, reference: Path | None) -> dict[str, Any]:
    sizes = np.full(num_samples // SAMPLES_PER_SHARD, SAMPLES_PER_SHARD, np.uint32)
    shuffle = _load_reference(reference) if system == "mosaicml" and reference else None
    first = int(num_samples * start) // GLOBAL_BATCH * GLOBAL_BATCH
    before = _peak_bytes(reset=True)
    began, cpu = time.perf_counter(), time.process_time()
    if shuffle:
        shuffle(sizes.astype(np.int64), "py1e", 1 << 18, first)
        batch_seconds = 0.0
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    else:
        order = EpochOrder(OrderSpec(GLOBAL_BATCH, shuffle=True), _mixture(sizes), 1, start=first)
        order.batch(0)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        began = time.perf_counter()
        for index in range(1, 101):
            order.batch(index)
        batch_seconds = (time.perf_counter() - began) / 100
    return {
        "system": system,
        "samples": num_samples,
        "shards": len(sizes),
        "start": start,
        "first_batch_seconds": took,
        "cpu_seconds": cpu,
        "batch_seconds": batch_seconds,
        "peak_bytes": _peak_bytes() - before,
    }


def _quality(reference: Path | None) -> list[dict[str, Any]]:
    """1,024 shards of 1,000 samples on 8 hosts of 8 ranks; the same working set, 64 shards over all, for each."""
    sizes = np.full(1024, 1000)
    orders: dict[str, Callable[[], Order]] = {
        f"headrace {algo}": partial(_own_order, sizes, algo) for algo in ShuffleAlgo
    }
    if reference:
        shuffle = _load_reference(reference)
        for algo in ("py1e", "py1br", "py1s", "py2s", "naive"):
            orders[f"mosaicml {algo}"] = partial(shuffle, sizes, algo, 1000, 0)
    print(
        "\n| order | shards in a batch of 256 | entropy, bits of 10 | rows between draws | shards open: all | a host |"
    )
    print("|---|---|---|---|---|---|")
    rows = []
    for name, make in orders.items():
        row = {"order": name} | _mixing(make() // 1000)
        rows.append(row)
        print(
            f"| {name} | {row['shards_in_batch']:.0f} | {row['entropy_bits']:.2f} | {row['apart']:.0f} | "
            f"{row['open_all']:.0f} | {row['open_host']:.0f} |"
        )
    return rows


def _methods() -> list[dict[str, Any]]:
    """Seconds per global batch, one after another, of 1,000 shards a stream."""
    print("\n| batching_method | streams | batch µs |\n|---|---|---|")
    rows = []
    for method in BatchingMethod:
        for num_streams in (1, 5, 35):
            streams = (StreamSpec(str(number), np.full(1000, SAMPLES_PER_SHARD)) for number in range(num_streams))
            spec = OrderSpec(GLOBAL_BATCH, shuffle=True, batching_method=method)
            order = EpochOrder(spec, Mixture(tuple(streams)), 0)
            order.batch(0)
            began = time.perf_counter()
            for index in range(16, 176):
                order.batch(index)
            seconds = (time.perf_counter() - began) / 160
            rows.append({"method": method, "streams": num_streams, "batch_seconds": seconds})
            print(f"| {method} | {num_streams} | {seconds * 1e6:.0f} |")
    return rows


def _padding() -> list[dict[str, Any]]:
    """Share of padding in the frames of 8 ranks' batches, by window size in batches; None for no buckets."""
    random, windows = np.random.default_rng(5), (None, 16, 32, 64, 128)
    lengths = {
        "lognormal, median 6 s, 1-30 s": np.clip(random.lognormal(np.log(6), 0.7, 200_000), 1, 30) * 16_000,
        "uniform, 1-30 s": random.uniform(1, 30, 200_000) * 16_000,
    }
    print(f"\n| lengths | global batch | {' | '.join(map(str, windows))} |\n|---|---|{'---|' * len(windows)}")
    rows = []
    for name, global_batch in itertools.product(lengths, (64, 256, 1024)):
        frames = lengths[name].astype(np.int64)
        shares = {str(window): _padding_share(frames, global_batch, window) for window in windows}
        rows.append({"lengths": name, "global_batch": global_batch} | shares)
        print(f"| {name} | {global_batch} | " + " | ".join(f"{share:.1%}" for share in shares.values()) + " |")
    return rows


def _padding_share(frames: NDArray[np.int64], global_batch: int, window: int | None) -> float:
    buckets = None if window is None else LengthBuckets(window)
    order = EpochOrder(
        OrderSpec(global_batch, shuffle=True, buckets=buckets), _mixture(np.full(len(frames) // 100, 100)), 0
    )
    batches = in_buckets(order, lambda rows: frames[rows.sample_ids])
    held = padded = 0
    for index, rank in itertools.product(range(batches.num_batches), range(8)):
        rows = batches.batch(index)[rank::8]
        own = frames[rows.sample_ids[~rows.is_padding]]
        held += int(own.sum())
        padded += int(own.max(initial=0)) * len(rows)
    return 1 - held / padded


def _mixing(shards: Order) -> dict[str, float]:
    """Measures of an order, given the shard of the sample in every row."""
    batches = shards[: len(shards) // GLOBAL_BATCH * GLOBAL_BATCH].reshape(-1, GLOBAL_BATCH)
    counts = [np.unique(batch, return_counts=True)[1] for batch in batches]
    shares = [count / GLOBAL_BATCH for count in counts]
    row = np.argsort(shards, kind="stable")  # a sample's row, shard by shard
    apart = np.abs(np.diff(row.reshape(-1, SAMPLES_PER_SHARD)))
    return {
        "shards_in_batch": float(np.mean([len(count) for count in counts])),
        "entropy_bits": float(np.mean([-(share * np.log2(share)).sum() for share in shares])),
        "apart": float(np.median(apart)),
        "open_all": _open_at_a_time(batches),
        "open_host": _open_at_a_time(batches.reshape(len(batches), -1, 64)[:, :, :8].reshape(len(batches), -1)),
    }


def _open_at_a_time(batches: Order) -> float:
    """Shards that were used before and will be again, in the mean over batches: what a cache must hold."""
    number = np.broadcast_to(np.arange(len(batches))[:, None], batches.shape)
    first = np.full(1024, len(batches))
    last = np.full(1024, -1)
    np.minimum.at(first, batches, number)
    np.maximum.at(last, batches, number)
    return float(np.maximum(last - first + 1, 0).sum() / len(batches))


def _own_order(sizes: Order, algo: ShuffleAlgo) -> Order:
    order = EpochOrder(OrderSpec(GLOBAL_BATCH, shuffle=True, shuffle_algo=algo), _mixture(sizes), 0)
    return order.positions(0, order.num_rows).sample_ids


def _load_reference(folder: Path) -> Callable[[Order, str, int, int], Order]:
    """MosaicML's plan of an epoch: shard sizes, algorithm, block size, samples seen → sample of every row to come.

    Its packages' __init__ files import all of its dependencies, so empty packages stand in for them.
    """
    sys.path.insert(0, str(folder))
    for name in ("streaming", "streaming.base"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package
    get_partitions = import_module("streaming.base.partition").get_partitions
    get_shuffle = import_module("streaming.base.shuffle").get_shuffle

    def plan(sizes: Order, algo: str, block_size: int, seen: int) -> Order:
        total, per_rank = int(sizes.sum()), GLOBAL_BATCH // 64
        rows = get_partitions("relaxed", total, 64, 8, 8, 1, per_rank, seen, 8)  # (host, rank, worker, batch, row)
        shuffled = get_shuffle(algo, sizes, 64, 9176, 0, block_size)
        rows = rows.reshape(64, -1, per_rank).transpose(1, 2, 0).ravel()  # rank last, as in our global batches
        return np.asarray(shuffled[rows[rows >= 0]])

    return plan


def _mixture(sizes: NDArray[np.integer]) -> Mixture:
    return Mixture((StreamSpec("all", sizes),))


def _peak_bytes(*, reset: bool = False) -> int:
    """Highest resident memory of this process since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _budget(max_samples: int) -> list[dict[str, float]]:
    """Shards of 1,000 samples of speech, the counts of their lengths being known; 2,000 s in a batch, at 90%."""
    random = np.random.default_rng(0)
    kinds = (np.clip(random.lognormal(1.8, 0.7, (200, SAMPLES_PER_SHARD)), 1, 30) * 16_000).astype(np.int64)
    rows = []
    print("| samples | open, CPU ms | first batch at 90% | a batch | padding, 8 ranks |")
    print("|---|---|---|---|---|")
    for num_samples in [size for size in (10**6, 10**7, 10**8, 10**9) if size <= max_samples]:
        lengths = _SpeechLengths(kinds, random.integers(0, len(kinds), num_samples // SAMPLES_PER_SHARD))
        spec = OrderSpec(GLOBAL_BATCH, shuffle=True, buckets=FrameBudget(2000 * 16_000))
        mixture = _mixture(np.full(len(lengths.kind_of_shard), SAMPLES_PER_SHARD, np.uint32))
        epoch = in_buckets(EpochOrder(spec, mixture, 1), lengths)
        start = epoch.batch_start(epoch.num_batches * 9 // 10)
        began = time.process_time()
        order = in_buckets(EpochOrder(spec, mixture, 1, start=start), lengths)
        opened = time.process_time()
        order.batch(0)
        first = time.process_time()
        batches = [order.batch(index) for index in range(1, 101)]
        ended = time.process_time()
        held = padded = 0
        for part in (batch[rank::8] for batch in batches for rank in range(8)):
            frames = lengths(part)
            held, padded = held + int(frames.sum()), padded + int(frames.max()) * len(frames)
        row = {
            "samples": num_samples,
            "open_seconds": opened - began,
            "first_batch_seconds": first - opened,
            "batch_seconds": (ended - first) / 100,
            "padding": 1 - held / padded,
        }
        times = [row["open_seconds"], row["first_batch_seconds"], row["batch_seconds"]]
        print(f"| {num_samples:.0e} | " + " | ".join(f"{t * 1e3:.1f}" for t in times) + f" | {row['padding']:.1%} |")
        rows.append(row)
    return rows


class _SpeechLengths:
    """Lengths of shards that are each of one of some kinds (`order.lengths.KnownLengths`)."""

    def __init__(self, kinds: Order, kind_of_shard: Order) -> None:
        self.kind_of_shard = kind_of_shard
        self._kinds = kinds
        counted = count_lengths([(np.full(len(kinds), SAMPLES_PER_SHARD), kinds.ravel())])
        self._census = LengthCensus(counted.first_cell, counted.counts[kind_of_shard], counted.longest)

    def __call__(self, rows: Rows) -> Order:
        shard, sample = np.divmod(rows.sample_ids, SAMPLES_PER_SHARD)
        return np.asarray(self._kinds[self.kind_of_shard[shard], sample])

    def census(self, stream: int) -> LengthCensus:
        assert stream == 0
        return self._census


def _mixtures() -> list[dict[str, Any]]:
    """Streams of 100 shards of 100 samples; the mean of the batches after the first."""
    rows = []
    print("| streams | random: first batch, CPU ms | others | stratified: first | others |")
    print("|---|---|---|---|---|")
    for num_streams in (1, 10, 100, 1000):
        row: dict[str, Any] = {"streams": num_streams}
        weights = np.random.default_rng(0).uniform(0.8, 1.2, num_streams).round(3)
        streams = (StreamSpec(f"s{i}", np.full(100, 100), proportion=weight) for i, weight in enumerate(weights))
        mixture = Mixture(tuple(streams))
        for method in (BatchingMethod.RANDOM, BatchingMethod.STRATIFIED):
            began = time.process_time()
            order = EpochOrder(OrderSpec(1024, shuffle=True, batching_method=method), mixture, 1)
            order.batch(0)
            first = time.process_time()
            count = min(order.num_batches, 600) - 1
            for index in range(1, count + 1):
                order.batch(index)
            row[method] = {"first_seconds": first - began, "batch_seconds": (time.process_time() - first) / count}
        rows.append(row)
        times = [
            row[method][kind] for method in ("random", "stratified") for kind in ("first_seconds", "batch_seconds")
        ]
        print(f"| {num_streams} | " + " | ".join(f"{seconds * 1e3:.2f}" for seconds in times) + " |")
    return rows


def _hardware() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": model[0] if model else platform.processor(),
        "num_cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


if __name__ == "__main__":
    main()
