"""Throughput of encoding beside its limit: `python benchmarks/latents.py [--devices cuda:0] [--kind crepe]`.

The limit is the same model on one resident, ready batch of the same shape in a loop, in the same precision, on each
device at once; on a CPU the better one of a loop that has all cores and of a loop for each core. Ours is the whole way
from audio shards to published latent shards. Both are measured in turn, several times, in one process, by the clock and
(for CPUs that others use too) by the CPU time spent. Prints a table, what the feeding thread waited for, and writes
JSON with the hardware. Lengths are spread evenly over 1-30 s, from 44.1 kHz FLAC, in shards of 50. `--model` makes
models of real size with random weights, whose codebooks are empty: their speed is real, their codes are not.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests` from the checkout

from headrace import encoders
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.encoders import Encoder, running
from headrace.encoding.engine import Engine
from headrace.encoding.plans import EncodingOptions
from headrace.encoding.reading import DecodedJob, EncodingJob, JobDecoder
from headrace.encoding.sources import audio_shard
from headrace.encoding.stats import EncodingStats
from headrace.encoding.windows import plan_windows
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import write_partition

SAMPLE_RATE_HZ = 44_100
SAMPLES_PER_SHARD = 50
MODELS = ("wav2vec2-base", "encodec-24k", "encodec-48k")


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds of audio per second, by the clock and by the CPU time of this process."""

    clock: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Round:
    """One measurement of each."""

    limit: Rate
    ours: Rate


class Stopwatch:
    """Both times since it was made."""

    def __init__(self) -> None:
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """By the clock."""
        return time.perf_counter() - self._clock

    def rate(self, audio_seconds: float) -> Rate:
        """So much audio since then."""
        return Rate(audio_seconds / self.seconds, audio_seconds / (time.process_time() - self._cpu))


def make_audio(folder: Path, minutes: float) -> list[float]:
    """Audio shards of tones over noise, unless the folder has them; returns the clips' lengths in seconds."""
    random = np.random.default_rng(0)
    lengths: list[float] = []
    while sum(lengths) < 60 * minutes:
        lengths.append(float(random.uniform(1, 30)))
    if newest_manifest(LocalStorage(folder), "train-0000") is not None:
        return lengths
    clips = {}
    for i, seconds in enumerate(lengths):
        time_seconds = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
        tone = 0.3 * np.sin(2 * np.pi * random.uniform(80, 900) * time_seconds)
        clips[f"clip{i:06d}"] = (tone + 0.02 * random.standard_normal(len(tone))).astype(np.float32)
    names = list(clips)
    shards = [
        {name: clips[name] for name in names[i : i + SAMPLES_PER_SHARD]}
        for i in range(0, len(names), SAMPLES_PER_SHARD)
    ]
    write_partition(LocalStorage(folder), shards, sample_rate_hz=SAMPLE_RATE_HZ)
    return lengths


def save_model(name: str, folder: Path) -> dict[str, object]:
    """Save a model of real size with random weights; returns the encoder's settings."""
    import transformers  # noqa: PLC0415 - only for this

    if name == "wav2vec2-base":
        config: object = transformers.Wav2Vec2Config()
        extractor: object = transformers.Wav2Vec2FeatureExtractor()
        settings: dict[str, object] = {}
    else:
        stereo = {"audio_channels": 2, "sampling_rate": 48_000, "normalize": True, "use_causal_conv": False}
        stereo |= {"norm_type": "time_group_norm", "chunk_length_s": 1.0, "overlap": 0.01}
        stereo |= {"target_bandwidths": [3.0, 6.0, 12.0, 24.0]}
        config = transformers.EncodecConfig(**(stereo if name == "encodec-48k" else {}))
        rest = {"chunk_length_s": config.chunk_length_s, "overlap": config.overlap}
        extractor = transformers.EncodecFeatureExtractor(config.audio_channels, config.sampling_rate, **rest)
        settings = {"output": "codes", "bandwidth": 6.0}
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    extractor.save_pretrained(folder)
    return {"model": str(folder), **settings}


def middle_batch(encoder: Encoder, audio: Path, options: EncodingOptions) -> DecodedJob:
    """A batch of the middle length of those that the pipeline runs, decoded."""
    engine = Engine([encoder], "float16", options)
    storage = LocalStorage(audio)
    manifest = newest_manifest(storage, "train-0000")
    assert manifest is not None
    with ExitStack() as stack:
        shards = [stack.enter_context(audio_shard(storage, shard.name)) for shard in manifest.manifest.shards]
        clips = [clip for shard in shards for clip in shard.clips]
        windows = [plan_windows(clip.num_frames_at(encoder.sample_rate_hz), encoder) for clip in clips]
        batches = engine.batches(windows)
        job = EncodingJob(0, clips, batches[len(batches) // 2])
        reader = stack.enter_context(JobDecoder(encoder, num_threads=2, pin_memory=False))
        return next(reader.read([job], ahead=1))


def measure_limit(loaded: list[Encoder], ready: DecodedJob, seconds: float) -> Rate:
    """The model on one resident batch, again and again, in a loop for each device.

    On a CPU also in a loop for each core: the better of both.
    """
    with running.full_float32():
        rates = [_loops(loaded, ready, seconds)]
        encoder, num_threads = loaded[0], torch.get_num_threads()
        if encoder.device == "cpu" and encoder.info.is_concurrent and num_threads > 1:
            rates.append(_loops([encoder] * num_threads, ready, seconds))
    return Rate(max(rate.clock for rate in rates), max(rate.cpu for rate in rates))


def _loops(loaded: list[Encoder], ready: DecodedJob, seconds: float) -> Rate:
    """Loops in parallel, one for each of the encoders, which share the cores."""
    lengths = torch.tensor([piece.window.num_frames for piece in ready.job.batch.pieces])
    batches = {encoder.device: ready.audio.to(encoder.device) for encoder in loaded}
    num_threads = torch.get_num_threads()
    on_cpu = loaded[0].device == "cpu"

    def loop(encoder: Encoder, watch: Stopwatch) -> int:
        torch.set_num_threads(num_threads // len(loaded) if on_cpu else num_threads)
        rounds = 0
        while watch.seconds < seconds:
            encoder.encode(batches[encoder.device], lengths)
            _wait(encoder)
            rounds += 1
        return rounds

    for encoder in loaded:
        encoder.encode(batches[encoder.device], lengths)
        _wait(encoder)
    watch = Stopwatch()
    with ThreadPoolExecutor(len(loaded)) as pool:
        rounds = sum(pool.map(loop, loaded, [watch] * len(loaded)))
    num_frames = sum(piece.window.num_frames for piece in ready.job.batch.pieces)
    rate = watch.rate(rounds * num_frames / loaded[0].sample_rate_hz)
    torch.set_num_threads(num_threads)
    return rate


def _wait(encoder: Encoder) -> None:
    if encoder.device.startswith("cuda"):
        torch.cuda.synchronize(encoder.device)


def measure_ours(loaded: list[Encoder], audio: Path, options: EncodingOptions) -> tuple[Rate, EncodingStats]:
    """Audio shards to latent shards."""
    settings = LatentSettings(loaded[0].fingerprint, "float16")
    with tempfile.TemporaryDirectory() as out:
        watch = Stopwatch()
        build = build_latent_partition(
            "train-0000", settings, lambda: loaded, LocalStorage(audio), LocalStorage(Path(out)), options=options
        )
        return watch.rate(build.stats.audio_seconds), build.stats


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "cuda:0" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--devices", default=default, help="with commas between them")
    parser.add_argument("--kind", default="crepe")
    parser.add_argument("--settings", type=json.loads, default={}, help="the encoder's settings as JSON")
    parser.add_argument("--model", choices=MODELS, help="a model of real size, of kind transformers")
    parser.add_argument("--audio", type=Path, help="keeps the corpus, and models, in this folder for later runs")
    parser.add_argument("--minutes", type=float, default=6.0, help="audio in the corpus")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit-seconds", type=float, default=4.0, help="how long the limit is measured in each round")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2, help="threads that decode")
    parser.add_argument(
        "--torch-threads", type=int, default=None, help="threads of the CPU encoder; 1 on a machine in use"
    )
    parser.add_argument("--batch-seconds", type=float, default=None)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/latents.json"))
    given = parser.parse_args()

    if given.torch_threads:
        torch.set_num_threads(given.torch_threads)
    options = EncodingOptions(given.batch_seconds, given.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.audio or Path(temporary)
        audio = folder / f"{given.minutes:g}-minutes"
        kind, settings = given.kind, given.settings
        if given.model:
            kind, settings = "transformers", {**save_model(given.model, folder / given.model), **settings}
        loaded = [encoders.load(kind, settings, device) for device in given.devices.split(",")]
        lengths = make_audio(audio, given.minutes)
        ready = middle_batch(loaded[0], audio, options)
        rounds: list[Round] = []
        for _ in range(given.rounds):
            limit = measure_limit(loaded, ready, given.limit_seconds)
            ours, stats = measure_ours(loaded, audio, options)
            rounds.append(Round(limit, ours))
    ratio, cpu_ratio = (
        statistics.median(getattr(each.ours, name) / getattr(each.limit, name) for each in rounds)
        for name in ("clock", "cpu")
    )
    corpus = f"{sum(lengths) / 60:.1f} min in {len(lengths)} clips of 1-30 s"
    print(
        f"{given.model or given.kind} {json.dumps(given.settings)} on {given.devices}, {corpus}, "
        f"batch {tuple(ready.audio.shape)}"
    )
    print(f"{'round':>6}{'limit x':>10}{'ours x':>10}{'ratio':>8}{'of CPU time':>13}")
    for i, each in enumerate(rounds):
        ratios = f"{each.ours.clock / each.limit.clock:>8.3f}{each.ours.cpu / each.limit.cpu:>13.3f}"
        print(f"{i:>6}{each.limit.clock:>10.1f}{each.ours.clock:>10.1f}{ratios}")
    print(f"median ratio {ratio:.3f} (CPU time {cpu_ratio:.3f})")
    print(f"padding {stats.padding_share:.2%}; device busy {stats.busy_share:.1%}")
    waits = ", ".join(f"{cause} {seconds:.2f} s" for cause, seconds in sorted(stats.waits.items()))
    print(f"{stats.num_batches} batches in {stats.wall_seconds:.2f} s; waited for {waits}")
    num_threads = options.decoding_threads(len(stats.devices))
    print(f"decode threads {num_threads}; GPU memory peak {stats.peak_memory_bytes / 2**30:.2f} GiB")
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
    }
    machine["device"] = ", ".join(stats.devices)
    result = {"machine": machine, "arguments": {key: str(value) for key, value in vars(given).items()}}
    result |= {
        "rounds": [asdict(each) for each in rounds],
        "ratio": ratio,
        "cpu_ratio": cpu_ratio,
        "stats": asdict(stats),
    }
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
