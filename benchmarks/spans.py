"""Spans of one long recording: `python benchmarks/spans.py [--hours 1 3] [--spans 10000] [--threads 2]`.

Rows of a table become samples: spans of 0.2 to 2 s, at random places of one recording of noise and tones (44.1 kHz,
mono), which is MP3 or FLAC. Measured are the scan, the build of all shards, how many frames were decoded for it, and
the peak memory, each in a process of its own. A few spans are compared with the same frames of the decoded recording.
Prints a table and writes JSON with the hardware.
"""

import argparse
import io
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import soundfile as sf

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests` from the checkout

from headrace.assemble.audio import build_partition
from headrace.assemble.shard_settings import ShardSettings
from headrace.audio import AudioFormat
from headrace.audio import spans as spans_module
from headrace.audio.levels import Samples
from headrace.audio.reader import FrameReader
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import ShardSize
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import parse_index
from headrace.format.tars.tar import payload
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage
from tests.support.sounds import music

RATE_HZ = 44_100
SUBTYPES = {"mp3": ("MP3", "MPEG_LAYER_III"), "flac": ("FLAC", "PCM_16")}
RESULTS = Path(__file__).parent / "results" / "spans.json"


class CountingReader(FrameReader):
    """A `FrameReader` that counts decoded frames."""

    num_frames = 0

    def blocks(self, start: int, stop: int) -> Iterator[Samples]:
        """See `FrameReader.blocks`."""
        for block in super().blocks(start, stop):
            CountingReader.num_frames += len(block)
            yield block


def write_recording(path: Path, hours: float) -> int:
    """Write a recording. Returns its number of frames."""
    minute = (music(60 * RATE_HZ, rate_hz=RATE_HZ) * 0.9).astype(np.float32)
    num_minutes = round(60 * hours)
    container, subtype = SUBTYPES[path.suffix[1:]]
    with sf.SoundFile(path, "w", RATE_HZ, 1, subtype, format=container) as sound:
        for number in range(num_minutes):
            sound.write(minute * np.float32(1 - number / 1000))
    return num_minutes * 60 * RATE_HZ


def rows(num_spans: int, seconds: float) -> pl.DataFrame:
    """The metadata table: spans at random places, in random order."""
    rng = np.random.default_rng(1)
    starts = np.round(rng.uniform(0, seconds - 2, num_spans), 4)
    lengths = np.round(rng.uniform(0.2, 2.0, num_spans), 3)
    return pl.DataFrame({"start": starts, "duration": lengths, "utt": [f"u{i:06d}" for i in range(num_spans)]})


def measured(path: Path, num_spans: int, num_threads: int) -> dict[str, object]:
    """Scan and build in this process."""
    spans_module.FrameReader = CountingReader
    source = open_source(path.parent, exclude=[path.parent / "output"])
    seconds = sf.info(str(path)).duration
    table = rows(num_spans, seconds).with_columns(path=pl.lit(path.name))
    output = LocalStorage(path.parent / "output")
    config = DatasetConfig(
        name="spans",
        source={
            "uri": str(path.parent),
            "samples": "rows",
            "metadata": "m.csv",
            "columns": {"key": "utt"},
            "settle_seconds": 0,
        },
        splits={"train": 1.0},
        output={"uri": output.uri},
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    scan, _ = update_catalog(config, source, table, output)
    scanned = time.perf_counter()
    recordings = partition_recordings(output, config, "train-0000")
    settings = ShardSettings(AudioFormat(), ShardSize(50))
    build = build_partition("train-0000", recordings, settings, source, output.at("audio"), num_threads=num_threads)
    built = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    span_frames = sum(recording.span.num_frames for recording in recordings)
    return {
        "spans": scan.recordings.height,
        "shards": len(build.written),
        "recording_frames": recordings[0].info.num_frames,
        "span_frames": span_frames,
        "decoded_frames": CountingReader.num_frames,
        "scan_seconds": round(scanned - began, 2),
        "build_seconds": round(built - scanned, 2),
        "memory_before_mb": before // 1024,
        "peak_memory_mb": after // 1024,
        "compared": compared(path, output, build.written[0]),
    }


def compared(path: Path, output: LocalStorage, shard: str) -> int:
    """Compare the samples of a shard with the decoded recording. Returns their number."""
    audio = output.at("audio")
    index = parse_index(audio.read(index_name(shard)), shard)
    whole = sf.read(path, dtype="int16" if path.suffix == ".flac" else "float32")[0]
    with audio.open(shard) as file:
        for i in range(len(index)):
            facts = json.loads(payload(file, index.range_of(i, "json")))["headrace"]
            found = sf.read(io.BytesIO(payload(file, index.range_of(i, "flac"))), dtype="int16")[0]
            wanted = whole[facts["start_frame"] : facts["stop_frame"]]
            if wanted.dtype != np.int16:
                wanted = np.clip(np.rint(wanted.astype(np.float64) * 32_768), -32_768, 32_767).astype(np.int16)
            if not np.array_equal(found, wanted):
                raise SystemExit(f"sample {i} of {shard} differs from the recording")
    return len(index)


def main() -> None:
    """Measure each form and length in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, nargs="+", default=[1, 3])
    parser.add_argument("--spans", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.one, asked.spans, asked.threads)))
        return
    found = []
    for form in SUBTYPES:
        for hours in asked.hours:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, f"long.{form}")
                write_recording(path, hours)
                command = [sys.executable, __file__, "--one", str(path)]
                options = ["--spans", str(asked.spans), "--threads", str(asked.threads)]
                out = subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout
                found.append({"form": form, "hours": hours, **json.loads(out)})
            row = found[-1]
            passes = row["decoded_frames"] / row["recording_frames"]
            print(
                f"{form:5} {hours:g} h: {row['spans']} spans, decoded {passes:.2f} of the recording, "
                f"scan {row['scan_seconds']} s, build {row['build_seconds']} s, "
                f"peak memory {row['peak_memory_mb']} MB (before: {row['memory_before_mb']} MB)"
            )
    result = {"num_cores": os.cpu_count(), "python": platform.python_version(), "threads": asked.threads, "rows": found}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
