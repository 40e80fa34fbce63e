"""Batches of audio on a GPU: `python benchmarks/pinned.py [--device cuda:0]`.

Reads an epoch of FLAC and copies each batch to the device, from ordinary and from pinned memory, with several numbers
of workers, in turn. Beside them stands the copy alone: one batch in pinned memory, copied again and again. Prints a
table and writes JSON with the hardware.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests` from the checkout

from headrace import StreamingDataLoader, StreamingDataset
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import commit, write_partition

SAMPLE_RATE_HZ, CLIP_SECONDS, CLIPS_PER_SHARD = 16_000, 5.0, 100


def write_corpus(folder: Path, num_clips: int) -> None:
    """Clips of noise, 16 kHz mono."""
    random = np.random.default_rng(0)
    samples = (0.1 * random.standard_normal(round(CLIP_SECONDS * SAMPLE_RATE_HZ))).astype(np.float32)
    keys, storage = [f"clip{i:06d}" for i in range(num_clips)], LocalStorage(folder / "audio")
    shards = [dict.fromkeys(keys[i : i + CLIPS_PER_SHARD], samples) for i in range(0, num_clips, CLIPS_PER_SHARD)]
    commit(storage, write_partition(storage, shards, sample_rate_hz=SAMPLE_RATE_HZ))


def epoch_seconds(folder: Path, batch_size: int, num_workers: int, device: str, *, pin_memory: bool) -> float:
    """Time from the first to the last batch on the device; the second epoch, so that workers run and files are read."""
    dataset = StreamingDataset(remote=f"{folder}/audio", batch_size=batch_size)
    loader = StreamingDataLoader(dataset, num_workers=num_workers, pin_memory=pin_memory)
    for _ in range(2):
        started, total = time.perf_counter(), torch.zeros((), device=device)
        for batch in loader:
            total += batch["audio"].to(device, non_blocking=pin_memory).sum()
        total.item()
        seconds = time.perf_counter() - started
    return seconds


def copy_seconds(batch_size: int, num_batches: int, device: str) -> float:
    """Time to copy one pinned batch as often as an epoch has batches."""
    shape = (batch_size, 1, round(CLIP_SECONDS * SAMPLE_RATE_HZ))
    batch = torch.zeros(shape, pin_memory=device.startswith("cuda"))
    started, total = time.perf_counter(), torch.zeros((), device=device)
    for _ in range(num_batches):
        total += batch.to(device, non_blocking=True).sum()
    total.item()
    return time.perf_counter() - started


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--clips", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 4, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/pinned.json"))
    given = parser.parse_args()
    pins = [False, True] if given.device.startswith("cuda") else [False]
    readings: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), given.clips)
        for _ in range(given.rounds):
            readings.setdefault("copy alone", []).append(
                copy_seconds(given.batch_size, given.clips // given.batch_size, given.device)
            )
            for num_workers in given.workers:
                for pin in pins:
                    name = f"{num_workers} workers, {'pinned' if pin else 'ordinary'}"
                    seconds = epoch_seconds(Path(folder), given.batch_size, num_workers, given.device, pin_memory=pin)
                    readings.setdefault(name, []).append(seconds)
    print(f"{given.clips} clips of {CLIP_SECONDS:g} s on {given.device}, batches of {given.batch_size}")
    for name, seconds in readings.items():
        spread = ", ".join(f"{given.clips / one:.0f}" for one in sorted(seconds))
        print(f"{name:>22}: {given.clips / statistics.median(seconds):>9.0f} clips/s  ({spread})")
    device = torch.cuda.get_device_name(given.device) if given.device.startswith("cuda") else "cpu"
    machine = {"cores": os.cpu_count(), "torch": torch.__version__, "device": device}
    result = {"machine": machine, "arguments": {key: str(value) for key, value in vars(given).items()}}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({**result, "seconds": readings}, indent=1) + "\n")


if __name__ == "__main__":
    main()
