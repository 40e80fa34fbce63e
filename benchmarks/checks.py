"""Measures the loader's default checks of local shards: `python benchmarks/checks.py [--clips 150] [--rounds 60]`.

Local FLAC shards with JSON, of 5 s clips, are read in whole epochs on one thread, in turn: with the default checks (the
CRC-32 of JSON and of small fields, and FLAC's header compared with the index), without them (the functions that check
are replaced by ones that do nothing), and with a CRC-32 of all audio besides. The decoder compares the checksums of
FLAC's frames in all three. Reported is the CPU time of an epoch, each kind in relation to the one without checks of the
same round: the median of the ratios, and the ratio of the least times, because other programs may run. Where they run,
this is too coarse; so the CPU time inside of the functions that check is added up, too, with the cost of doing so.
The same is done for audio that is kept as it is (`codec: copy`), whose bytes are all compared, with isal's CRC-32 and
with zlib's. Writes `results/checks.json`.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `tests` from the checkout

import numpy as np  # noqa: E402

from headrace import StreamingDataLoader, StreamingDataset  # noqa: E402
from headrace.stores.storage import LocalStorage  # noqa: E402
from headrace.streaming.batches import copied_batch, decode, in_place_batch  # noqa: E402
from headrace.streaming.samples import stored_sample  # noqa: E402
from headrace.streaming.samples.stored_sample import StoredSample  # noqa: E402
from headrace.upkeep.tar_indexes import index_tars  # noqa: E402
from tests.support.audio_shards import commit, write_partition  # noqa: E402
from tests.support.sounds import file_of, music  # noqa: E402
from tests.support.tars import tar_of  # noqa: E402

RATE_HZ, SECONDS, PER_SHARD = 44_100, 5, 50
COLUMNS = {"species": "Turdus merula", "label": 17, "caption": "a blackbird sings in the rain at dawn " * 4}


def corpus_of(num_clips: int, folder: Path) -> str:
    """A folder of audio shards. Returns its name."""
    storage = LocalStorage(folder / "audio")
    keys = [f"clip{number:06d}" for number in range(num_clips)]
    sounds = {key: music(RATE_HZ * SECONDS, seed=seed)[:, 0].astype(np.float32) for seed, key in enumerate(keys)}
    shards = [{key: sounds[key] for key in keys[first : first + PER_SHARD]} for first in range(0, num_clips, PER_SHARD)]
    columns = dict.fromkeys(keys, COLUMNS)
    commit(storage, write_partition(storage, shards, sample_rate_hz=RATE_HZ, metadata=columns))
    return storage.uri


def kept_corpus_of(num_clips: int, folder: Path, container: str, subtype: str, extension: str) -> str:
    """A folder of one tar with audio as it is, and JSON. Returns its name."""
    folder.mkdir()
    members = {}
    for number in range(num_clips):
        sound = music(RATE_HZ * SECONDS, seed=number)
        members[f"clip{number:06d}.{extension}"] = file_of(sound, container, subtype, RATE_HZ)
        members[f"clip{number:06d}.json"] = json.dumps(COLUMNS).encode()
    (folder / "a.tar").write_bytes(tar_of(members))
    index_tars(str(folder), num_threads=1)
    return str(folder)


def epoch(folder: str) -> float:
    """CPU seconds of one epoch, on one thread."""
    dataset = StreamingDataset(remote=folder, batch_size=32, shuffle=True)
    loader = StreamingDataLoader(dataset, num_threads=1)
    begin = time.process_time()
    for batch in loader:
        assert len(batch["keys"])
    return time.process_time() - begin


@contextlib.contextmanager
def without_checks() -> Iterator[None]:
    """The default checks are off."""
    with (
        mock.patch.object(StoredSample, "checked", lambda _self, _column, data: data),
        mock.patch.object(decode, "check_header", return_value=None),
        mock.patch.object(copied_batch, "_match", return_value=True),
    ):
        yield


@contextlib.contextmanager
def with_all() -> Iterator[None]:
    """A CRC-32 of the audio besides the default checks."""
    fill = decode.fill_audio

    def checked(sample: StoredSample, field: object, blob: memoryview, *rest: object) -> None:
        zlib.crc32(blob)
        fill(sample, field, blob, *rest)  # type: ignore[arg-type]

    with mock.patch.object(in_place_batch, "fill_audio", checked):
        yield


def time_in_checks(folder: str) -> float:
    """The share of an epoch's CPU time that is spent in the default checks, with the measurement: an upper bound."""
    spent = 0

    def timed(function: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object) -> object:
            nonlocal spent
            begin = time.thread_time_ns()
            try:
                return function(*arguments)
            finally:
                spent += time.thread_time_ns() - begin

        return wrapper

    with (
        mock.patch.object(StoredSample, "checked", timed(StoredSample.checked)),
        mock.patch.object(decode, "check_header", timed(decode.check_header)),
    ):
        seconds = epoch(folder)
    return spent / 1e9 / seconds


def shares_of_kept(num_clips: int, folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """The share of the default checks, for each form of kept audio and each implementation of CRC-32."""
    found: dict[str, dict[str, float]] = {}
    for form, kind in KEPT.items():
        corpus = kept_corpus_of(num_clips, folder / form.replace(" ", "_"), *kind)
        shares: dict[str, list[float]] = {"isal": [], "zlib": []}
        time_in_checks(corpus)
        for _ in range(rounds):
            shares["isal"].append(time_in_checks(corpus))
            with mock.patch.object(stored_sample, "crc32", zlib.crc32):
                shares["zlib"].append(time_in_checks(corpus))
        found[form] = {name: statistics.median(values) for name, values in shares.items()}
        print(f"{form}: " + ", ".join(f"{100 * share:.2f}% with {name}" for name, share in found[form].items()))
    return found


KEPT = {
    "WAV of 16 bits": ("WAV", "PCM_16", "wav"),
    "WAV of 24 bits": ("WAV", "PCM_24", "wav"),
    "WAV of floats": ("WAV", "FLOAT", "wav"),
    "MP3": ("MP3", "MPEG_LAYER_III", "mp3"),
    "Vorbis": ("OGG", "VORBIS", "ogg"),
}
KINDS = {"without": without_checks, "default": contextlib.nullcontext, "with CRC-32 of the audio": with_all}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_of(options.clips, Path(folder))
        for turn in range(options.rounds + 1):
            for name in sorted(KINDS, key=lambda name: hash((turn, name))):  # no kind is always first
                with KINDS[name]():
                    taken = epoch(corpus)
                if turn:  # the first round warms up
                    seconds[name].append(taken)
        shares = [time_in_checks(corpus) for _ in range(max(3, options.rounds // 4))]
        kept = shares_of_kept(options.clips, Path(folder), max(3, options.rounds // 10))
    print(f"CPU time inside of the default checks: at most {100 * statistics.median(shares):.2f}%")
    ratios = {
        name: [one / bare for one, bare in zip(seconds[name], seconds["without"], strict=True)]
        for name in KINDS
        if name != "without"
    }
    for name, found in ratios.items():
        low, middle, high = (100 * (ratio - 1) for ratio in statistics.quantiles(found, n=4))
        least = 100 * (min(seconds[name]) / min(seconds["without"]) - 1)
        print(f"{name}: {middle:+.2f}% CPU time (quartiles {low:+.2f} to {high:+.2f}); of the least {least:+.2f}%")
    result = {
        "machine": {"cpus": len(os.sched_getaffinity(0)), "python": platform.python_version()},
        "options": vars(options),
        "share_in_checks": shares,
        "share_in_checks_of_kept": kept,
        "cpu_seconds": seconds,
        "ratio_median": {name: statistics.median(found) for name, found in ratios.items()},
        "ratio_of_least": {name: min(seconds[name]) / min(seconds["without"]) for name in ratios},
        "ratio_of_medians": {
            name: statistics.median(seconds[name]) / statistics.median(seconds["without"]) for name in ratios
        },
    }
    path = ROOT / "benchmarks" / "results" / "checks.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
