"""FLAC in and out against the codecs alone: `python benchmarks/codec.py [--clips 24] [--rounds 5]`.

Decoding: `decode_flac_into` beside soundfile and miniaudio's own call. Encoding: WAV files through `encode_segments`,
and the same with hashing and a tar, beside libsndfile on arrays in memory. Everything is measured in turn, several
times, on one and on all cores, by the clock and (for CPUs that others use too) by the CPU time spent. Clips are 5 s of
synthetic 44.1 kHz mono, 16 bits. Prints a table and writes JSON with the hardware.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import miniaudio
import numpy as np
import soundfile as sf

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests` from the checkout

from headrace.audio import AudioFormat, codec_version, decode_flac_into, encode_segments, plan_segments, probe
from headrace.format.tars.tar import TarWriter
from tests.support.sounds import file_of, music

NUM_FRAMES = 5 * 44_100
LIMITS = {"decode": "decode: miniaudio to int16, scaled", "encode": "encode: libsndfile on ready arrays"}


@dataclass(slots=True)
class Timing:
    """Milliseconds per clip of each round."""

    num_threads: int
    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class Clips:
    """The clips in every form that a system needs, made once."""

    def __init__(self, num_clips: int, folder: Path) -> None:
        sounds = [music(NUM_FRAMES, seed=seed) for seed in range(num_clips)]
        self.pcm = [np.round(sound * 32_767).astype(np.int16) for sound in sounds]
        self.flac = [file_of(pcm, "FLAC") for pcm in self.pcm]
        self.paths = [folder / f"{i}.wav" for i in range(num_clips)]
        for path, pcm in zip(self.paths, self.pcm, strict=True):
            path.write_bytes(file_of(pcm))


def systems(clips: Clips) -> dict[str, Callable[[int], object]]:
    """Systems to compare: for each a function of a clip's number."""

    def ours(i: int) -> None:
        decode_flac_into(clips.flac[i], np.empty((1, NUM_FRAMES), np.float32))

    def through_miniaudio(i: int) -> None:
        samples = np.frombuffer(miniaudio.flac_read_s16(clips.flac[i]).samples, np.int16)
        np.multiply(samples, np.float32(1 / 32_768), out=np.empty(NUM_FRAMES, np.float32))

    def through_soundfile(i: int) -> None:
        sf.read(io.BytesIO(clips.flac[i]), dtype="float32")

    def libsndfile_alone(i: int) -> None:
        sf.write(io.BytesIO(), clips.pcm[i], 44_100, format="FLAC", subtype="PCM_16", compression_level=5 / 8)

    def encoded(i: int) -> list[tuple[bytes, int]]:
        wanted = AudioFormat()
        with clips.paths[i].open("rb") as file:
            info = probe(file, num_bytes=clips.paths[i].stat().st_size)
            segments = plan_segments(info.num_frames, info.sample_rate_hz, wanted)
            return [(s.payload, s.num_bytes) for s in encode_segments(file, info, wanted, segments)]

    def archived(i: int) -> None:
        with clips.paths[i].open("rb") as file:
            hashlib.file_digest(file, "sha256")
        archive = TarWriter(io.BytesIO())
        for payload, num_bytes in encoded(i):
            archive.add("a.flac", payload, num_bytes)

    return {
        "decode: decode_flac_into": ours,
        LIMITS["decode"]: through_miniaudio,
        "decode: soundfile to float32": through_soundfile,
        LIMITS["encode"]: libsndfile_alone,
        "encode: probe and encode_segments": encoded,
        "encode: the same, source hash and tar": archived,
    }


def measure(system: Callable[[int], object], num_clips: int, timing: Timing) -> None:
    """One round."""
    with ThreadPoolExecutor(timing.num_threads) as pool:
        clock, cpu = time.perf_counter(), time.process_time()
        list(pool.map(system, range(num_clips)))
        timing.clock.append((time.perf_counter() - clock) / num_clips * 1e3)
        timing.cpu.append((time.process_time() - cpu) / num_clips * 1e3)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/codec.json"))
    options = parser.parse_args()
    num_cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        compared = systems(Clips(options.clips, Path(folder)))
        timings = {name: [Timing(n) for n in sorted({1, num_cores})] for name in compared}
        for _ in range(options.rounds):
            for name, system in compared.items():
                for timing in timings[name]:
                    measure(system, options.clips, timing)
    print(f"{'ms per clip, best of the rounds':40}{'threads':>9}{'clock':>8}{'CPU':>8}{'limit / CPU':>13}")
    for name, runs in timings.items():
        for run, limit in zip(runs, timings[LIMITS[name.split(":")[0]]], strict=True):
            ratio = min(limit.cpu) / min(run.cpu)
            print(f"{name:40}{run.num_threads:9}{min(run.clock):8.2f}{min(run.cpu):8.2f}{ratio:13.2f}")
    spread = max(max(run.clock) / statistics.median(run.clock) for runs in timings.values() for run in runs)
    result = {
        "hardware": {"machine": platform.machine(), "cores": num_cores, "load": os.getloadavg()[0]},
        "codecs": codec_version(),
        "worst_round_over_median": round(spread, 2),
        "ms_per_clip": {name: [asdict(run) for run in runs] for name, runs in timings.items()},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
