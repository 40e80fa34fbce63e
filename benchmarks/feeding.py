"""Whether publishing keeps a device waiting: `python benchmarks/feeding.py`.

An encoder that only sleeps gives latents of noise, for two groups of shards. Lengths are spread over 2 to 6 s, so that
nearly all shards of a group end with its last batches. Measured in turn: encoding alone (decoding, sleeping, and the
checks that a GPU would do), publishing alone (all of it without sleep), and both. If they overlap, both take little
more than the larger one, and one shard. Prints a table and writes JSON.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests` from the checkout

from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.encoders import EncoderInfo
from headrace.encoding.engine import Engine
from headrace.encoding.plans import EncodingOptions
from headrace.encoding.reading import EncodingJob
from headrace.encoding.sources import audio_shard
from headrace.encoding.windows import plan_windows
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import write_partition

RATE_HZ, CLIP_SECONDS, CLIPS_PER_SHARD, NUM_SHARDS = 16_000, 4.0, 50, 40
OPTIONS = EncodingOptions(batch_seconds=125.0)  # 32 batches to a group: 4,000 s, half of the audio
NUM_BATCHES = 64


class Sleeper:
    """An encoder that sleeps for a time per batch and gives the same noise for each row."""

    sample_rate_hz, num_channels, hop, latent_dim, device = RATE_HZ, 1, 320, 768, "cpu"
    fingerprint = "0" * 64
    info = EncoderInfo(0, 30 * RATE_HZ, RATE_HZ)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._noise = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 2048, 768)).astype(np.float32))

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return max(1, num_frames // self.hop)

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `Encoder`."""
        time.sleep(self.seconds)
        count = lengths // self.hop
        return self._noise[:, : int(count.max())].expand(len(batch), -1, -1), count


def encoding_seconds(audio: Path, encoder: Sleeper) -> float:
    """Wall time of an engine whose results nobody takes."""
    storage = LocalStorage(audio)
    manifest = newest_manifest(storage, "train-0000")
    assert manifest is not None
    with ExitStack() as stack:
        opened = [stack.enter_context(audio_shard(storage, shard.name)) for shard in manifest.manifest.shards]
        clips = [clip for shard in opened for clip in shard.clips]
        engine = Engine([encoder], "float16", OPTIONS)
        windows = [plan_windows(clip.num_frames_at(RATE_HZ), encoder) for clip in clips]
        started = time.perf_counter()
        for _ in engine.run([EncodingJob(0, clips, batch) for batch in engine.batches(windows)]):
            pass
        return time.perf_counter() - started


def seconds_of(audio: Path, encoder: Sleeper) -> tuple[float, Mapping[str, float]]:
    """Wall time of a build, and what it waited for."""
    settings = LatentSettings(encoder.fingerprint, "float16")
    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        built = build_latent_partition(
            "train-0000",
            settings,
            lambda: [encoder],
            LocalStorage(audio),
            LocalStorage(Path(out)),
            options=OPTIONS,
        )
        return time.perf_counter() - started, built.stats.waits


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/feeding.json"))
    given = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        keys = [f"k{number:05d}" for number in range(NUM_SHARDS * CLIPS_PER_SHARD)]
        lengths = np.random.default_rng(0).uniform(0.5, 1.5, len(keys)) * CLIP_SECONDS * RATE_HZ
        clips = {key: np.zeros(int(length), np.float32) for key, length in zip(keys, lengths, strict=True)}
        shards = [
            {key: clips[key] for key in keys[i : i + CLIPS_PER_SHARD]} for i in range(0, len(keys), CLIPS_PER_SHARD)
        ]
        write_partition(LocalStorage(Path(folder)), shards, sample_rate_hz=RATE_HZ)
        for _ in range(given.rounds):
            publishing, _ = seconds_of(Path(folder), Sleeper(0.0))
            awake = encoding_seconds(Path(folder), Sleeper(0.0))
            sleeper = Sleeper(max(0.0, publishing - awake) / NUM_BATCHES)  # encoding takes as long as publishing
            encoding = encoding_seconds(Path(folder), sleeper)
            both, waits = seconds_of(Path(folder), sleeper)
            rounds.append({"encoding": encoding, "publishing": publishing, "both": both})
            print(" ".join(f"{name} {value:6.2f} s" for name, value in rounds[-1].items()), end="; waited for ")
            print(", ".join(f"{cause} {value:.2f} s" for cause, value in sorted(waits.items())))
    ratio = statistics.median(one["both"] / max(one["encoding"], one["publishing"]) for one in rounds)
    print(f"both over the larger: {ratio:.2f} (median of {len(rounds)}; a shard is {1 / NUM_SHARDS:.1%} of it)")
    machine = {"cores": os.cpu_count(), "torch": torch.__version__}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"machine": machine, "rounds": rounds, "ratio": ratio}, indent=1) + "\n")


if __name__ == "__main__":
    main()
