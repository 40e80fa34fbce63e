"""CPU of four sets of latents made together, and one after the other: `python benchmarks/shared_decoding.py`.

Both make the same shards from 44.1 kHz stereo FLAC, in turn, several times, in one process. The CPU time is that of
the whole process: fetching, checking, decoding, resampling, encoding and publishing. Prints a table with the parts of
one pass, and writes JSON with the hardware. `--audio DIR` keeps the corpus for later runs.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests` from the checkout

from headrace import encoders
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.assemble.latents_together import LatentSet, build_latent_partitions
from headrace.assemble.update import PartitionBuild
from headrace.encoding.clips import AudioForm, read_clip
from headrace.encoding.plans import EncodingOptions
from headrace.encoding.sources import audio_shard
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import write_partition

SAMPLE_RATE_HZ = 44_100
SAMPLES_PER_SHARD = 25
PARTITION = "train-0000"
SETS = {
    "mel80": ("log_mel", {"num_mels": 80, "sample_rate_hz": 16_000}),
    "mel128": ("log_mel", {"num_mels": 128, "sample_rate_hz": 16_000}),
    "bank80": ("fbank", {"num_mels": 80, "sample_rate_hz": 16_000}),
    "bank40": ("fbank", {"num_mels": 40, "sample_rate_hz": 16_000}),
}


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock and of CPU time of this process."""

    clock: float
    cpu: float

    @classmethod
    def by(cls, work: Callable[[], object]) -> "Spent":
        """Of some work."""
        clock, cpu = time.perf_counter(), time.process_time()
        work()
        return cls(time.perf_counter() - clock, time.process_time() - cpu)


def make_audio(folder: Path, minutes: float) -> float:
    """Audio shards of stereo tones over noise, unless the folder has them; returns their seconds."""
    random, lengths = np.random.default_rng(0), list[float]()
    while sum(lengths) < 60 * minutes:
        lengths.append(float(random.uniform(1, 30)))
    if newest_manifest(LocalStorage(folder), PARTITION) is None:
        clips = {f"clip{i:06d}": _clip(random, seconds) for i, seconds in enumerate(lengths)}
        names = list(clips)
        starts = range(0, len(names), SAMPLES_PER_SHARD)
        shards = [{name: clips[name] for name in names[i : i + SAMPLES_PER_SHARD]} for i in starts]
        write_partition(LocalStorage(folder), shards, sample_rate_hz=SAMPLE_RATE_HZ)
    return sum(lengths)


def _clip(random: np.random.Generator, seconds: float) -> np.ndarray:
    times = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    tone = 0.3 * np.sin(2 * np.pi * random.uniform(80, 900) * times)
    return (tone[:, None] + 0.02 * random.standard_normal((len(tone), 2))).astype(np.float32)


def sets_below(folder: Path) -> list[LatentSet]:
    """The sets, to be written below a folder."""
    made = []
    for name, (kind, settings) in SETS.items():
        loaded = [encoders.load(kind, settings)]
        of = LatentSettings(encoders.fingerprint(kind, settings), "float16")
        made.append(LatentSet(name, of, lambda loaded=loaded: loaded, LocalStorage(folder / name)))
    return made


def make_alone(audio: LocalStorage, one: LatentSet, options: EncodingOptions) -> None:
    """One pass of one set."""
    build_latent_partition(PARTITION, one.settings, one.encoders, audio, one.storage, options=options)


def make_together(audio: LocalStorage, options: EncodingOptions) -> Spent:
    """All sets at the same time."""
    with tempfile.TemporaryDirectory() as out:
        sets = sets_below(Path(out))

        def work() -> None:
            builds = build_latent_partitions(PARTITION, sets, audio, options=options)
            assert all(isinstance(build, PartitionBuild) for build in builds.values()), builds

        return Spent.by(work)


def make_in_turn(audio: LocalStorage, options: EncodingOptions) -> dict[str, Spent]:
    """Each set by itself."""
    with tempfile.TemporaryDirectory() as out:
        sets = sets_below(Path(out))
        return {one.name: Spent.by(lambda one=one: make_alone(audio, one, options)) for one in sets}


def reading(audio: LocalStorage) -> Spent:
    """Fetching, decoding and resampling alone: the part that is shared."""
    found = newest_manifest(audio, PARTITION)
    assert found is not None

    def work() -> None:
        for entry in found.manifest.shards:
            with audio_shard(audio, entry.name) as shard:
                for clip in shard.clips:
                    read_clip(clip, AudioForm(16_000, 1), 0, clip.num_frames_at(16_000))

    return Spent.by(work)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2, help="threads that decode")
    parser.add_argument("--audio", type=Path, help="keeps the corpus in this folder for later runs")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/shared_decoding.json"))
    given = parser.parse_args()
    options, rounds = EncodingOptions(None, given.threads), []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.audio or Path(temporary)
        seconds, audio = make_audio(folder, given.minutes), LocalStorage(folder)
        make_together(audio, options)  # warm
        for _ in range(given.rounds):
            in_turn = make_in_turn(audio, options)
            rounds.append({"reading": reading(audio), "together": make_together(audio, options), **in_turn})
    print(f"{seconds / 60:.1f} min of 44.1 kHz stereo FLAC, CPU seconds")
    names = list(rounds[0])
    print("".join(f"{name:>10}" for name in names) + f"{'in turn':>10}{'ratio':>8}")
    ratios = []
    for each in rounds:
        in_turn = sum(each[name].cpu for name in SETS)
        ratios.append(each["together"].cpu / in_turn)
        print("".join(f"{each[name].cpu:>10.2f}" for name in names) + f"{in_turn:>10.2f}{ratios[-1]:>8.3f}")
    print(f"median ratio of CPU time {statistics.median(ratios):.3f}")
    machine = {"processor": platform.processor(), "cores": os.cpu_count(), "torch": torch.__version__}
    result = {
        "machine": machine,
        "arguments": {key: str(value) for key, value in vars(given).items() if key != "audio"},
        "sets": SETS,
        "rounds": [{name: asdict(spent) for name, spent in each.items()} for each in rounds],
        "ratio": statistics.median(ratios),
    }
    given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
