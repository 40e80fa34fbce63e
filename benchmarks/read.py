# ruff: noqa: PLC0415 - a system's imports are not its time, nor another's memory
"""Reading shards into training batches, beside what the machine can do at best and what others reach.

    python benchmarks/read.py [--clips 1500] [--rounds 3] [--peers-python PATH]

Makes shards of synthetic 5 s clips (44.1 kHz, mono, 16 bits; FLAC and JSON) and of latents ((500, 256) float16), then
runs each system in a fresh process, in turn, `--rounds` times, shuffled, batches of 32. Reported: samples/s from the
first call to the last batch (construction included, imports not), time to the first batch, peak memory of the process
tree, CPU seconds. "limit" decodes bytes that lie in memory, on as many threads, and builds no batch. Read the ratios:
absolute figures move with the machine. Peers that need an environment of their own run by `--peers-python`
(`read_peers.py`: numpy and nvidia-dali-cuda120). Prints tables and writes `results/read.json` with the hardware.
"""

import argparse
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

BATCH = 32
PER_SHARD = 50
NUM_FRAMES = 5 * 44_100
LATENT_SHAPE = (500, 256)
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Reading:
    """One run of one system."""

    system: str
    kind: str
    num_samples: int
    seconds: float
    first_seconds: float
    cpu_seconds: float
    peak_mib: float

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.num_samples / self.seconds


def make_corpus(folder: Path, num_clips: int) -> None:
    """Audio and latents in our form, once."""
    import torch

    from headrace.index import SampleEntry
    from headrace.indexing import latent_facts
    from headrace.shardwriter import ShardPlace, ShardWriter
    from headrace.storage import LocalStorage
    from tests.sounds import file_of, music
    from tests.streaming.corpus import commit

    sounds = [file_of(np.round(music(NUM_FRAMES, seed=s) * 32_767).astype(np.int16), "FLAC") for s in range(60)]
    generator = torch.Generator().manual_seed(0)
    for kind, prefix in (("audio", ""), ("latents", "latent_")):
        storage = LocalStorage(folder / kind)
        indexes = []
        for shard, start in enumerate(range(0, num_clips, PER_SHARD)):
            with ShardWriter(storage, ShardPlace("train", 0, shard, prefix)) as writer:
                for number in range(start, min(start + PER_SHARD, num_clips)):
                    key = f"clip{number:06d}"
                    text = json.dumps(
                        {"title": key, "headrace": {"source": f"{key}.wav", "num_frames": NUM_FRAMES}}
                    ).encode()
                    if kind == "audio":
                        blob = sounds[number % len(sounds)]
                        facts = SampleEntry(key, {}, NUM_FRAMES, 44_100, 1)
                    else:
                        file = io.BytesIO()
                        hidden = torch.randn(LATENT_SHAPE, generator=generator).half()
                        torch.save({"encoder_hidden": hidden, "encoder_length": LATENT_SHAPE[0]}, file)
                        blob = file.getvalue()
                        found = latent_facts(blob)
                        assert found is not None
                        assert found.tensor is not None
                        facts = SampleEntry(key, {}, LATENT_SHAPE[0], tensor=found.tensor.place)
                    field = "flac" if kind == "audio" else "pth"
                    writer.add(key, {field: (blob, len(blob)), "json": (text, len(text))}, facts)
                indexes.append(writer.publish("bench", {}, "" if kind == "audio" else "float16"))
        commit(storage, {"train-0000": indexes}, {})


Batches = Iterator[int]
"""Samples of each batch."""


def limit(folder: Path, kind: str, num_threads: int) -> Batches:
    """Decode bytes that lie ready, nothing else: the fastest bit-exact decoder, or a plain copy of raw latents."""
    from headrace.index import ShardIndex

    blobs: list[bytes] = []
    for path in sorted((folder / kind).glob("*.tar")):
        index = ShardIndex.from_bytes(path.with_suffix(".idx").read_bytes(), "")
        data = path.read_bytes()
        field = "flac" if kind == "audio" else "pth"
        spans = [index.range_of(i, field) for i in range(len(index))]
        blobs += [data[span[0] : span[1]] for span in spans if span is not None]
    _start_clock()
    yield from _on_threads(blobs, _decode_one if kind == "audio" else _copy_one, num_threads)


def limit_soundfile(folder: Path, kind: str, num_threads: int) -> Batches:
    """The same with libsndfile."""
    import soundfile as sf

    from headrace.index import ShardIndex

    blobs: list[bytes] = []
    for path in sorted((folder / kind).glob("*.tar")):
        index = ShardIndex.from_bytes(path.with_suffix(".idx").read_bytes(), "")
        data = path.read_bytes()
        spans = [index.range_of(i, "flac") for i in range(len(index))]
        blobs += [data[span[0] : span[1]] for span in spans if span is not None]
    _start_clock()
    yield from _on_threads(blobs, lambda blob: sf.read(io.BytesIO(blob), dtype="float32"), num_threads)


def _decode_one(blob: bytes) -> object:
    from headrace.audio import decode_flac_into

    out = _scratch()
    decode_flac_into(blob, out)
    return None


_local = threading.local()


def _scratch() -> np.ndarray:
    if not hasattr(_local, "out"):
        _local.out = np.empty((1, NUM_FRAMES), np.float32)
        _local.hidden = np.empty(LATENT_SHAPE, np.float16)
    return _local.out


def _copy_one(blob: bytes) -> object:
    _scratch()
    np.copyto(
        _local.hidden, np.frombuffer(blob, np.float16, LATENT_SHAPE[0] * LATENT_SHAPE[1], 768).reshape(LATENT_SHAPE)
    )
    return None


def _on_threads(blobs: list[bytes], work: Callable[[bytes], object], num_threads: int) -> Batches:
    from concurrent.futures import ThreadPoolExecutor

    def batch(start: int) -> int:
        part = blobs[start : start + BATCH]
        for blob in part:
            work(blob)
        return len(part)

    with ThreadPoolExecutor(num_threads) as pool:
        yield from pool.map(batch, range(0, len(blobs), BATCH))


def headrace_threads(folder: Path, kind: str, num_threads: int) -> Batches:
    """Ours, no workers."""
    from headrace import StreamingDataLoader, StreamingDataset

    dataset = StreamingDataset(remote=str(folder / kind), batch_size=BATCH, shuffle=True)
    for batch in StreamingDataLoader(dataset, num_threads=num_threads):
        yield len(batch["keys"]) - int(batch["is_padding"].sum())


def headrace_workers(folder: Path, kind: str, num_workers: int) -> Batches:
    """Ours, worker processes and shared memory."""
    from headrace import StreamingDataLoader, StreamingDataset

    dataset = StreamingDataset(remote=str(folder / kind), batch_size=BATCH, shuffle=True)
    for batch in StreamingDataLoader(dataset, num_workers=num_workers):
        yield len(batch["keys"]) - int(batch["is_padding"].sum())


def webdataset_inline(folder: Path, kind: str, num_workers: int) -> Batches:  # noqa: ARG001 - the table of systems
    """webdataset, decoding in the training process."""
    yield from _webdataset(folder, kind, 0)


def webdataset_workers(folder: Path, kind: str, num_workers: int) -> Batches:
    """Webdataset under torch's DataLoader with workers."""
    yield from _webdataset(folder, kind, num_workers)


def _webdataset(folder: Path, kind: str, num_workers: int) -> Batches:
    import soundfile as sf
    import torch
    import webdataset as wds

    def decoded(sample: dict[str, bytes]) -> tuple[object, dict[str, object]]:
        if kind == "audio":
            samples, _ = sf.read(io.BytesIO(sample["flac"]), dtype="float32")
            return torch.from_numpy(samples), json.loads(sample["json"])
        return torch.load(io.BytesIO(sample["pth"]), weights_only=True), json.loads(sample["json"])

    def padded(rows: list[tuple[object, dict[str, object]]]) -> tuple[object, list[dict[str, object]]]:
        tensors = [row[0] if kind == "audio" else row[0]["encoder_hidden"] for row in rows]  # type: ignore[index]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), [row[1] for row in rows]

    urls = [str(path) for path in sorted((folder / kind).glob("*.tar"))]
    dataset = (
        wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False)
        .shuffle(100)
        .map(decoded)
        .batched(BATCH, collation_fn=padded)
    )
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=num_workers)
    for tensors, _ in loader:
        yield len(tensors)


SYSTEMS: dict[str, Callable[[Path, str, int], Batches]] = {
    "limit": limit,
    "limit, soundfile": limit_soundfile,
    "headrace": headrace_threads,
    "headrace, workers": headrace_workers,
    "webdataset": webdataset_inline,
    "webdataset, workers": webdataset_workers,
}
PEERS = ("dali",)

_clock = [0.0, 0.0]


def _start_clock() -> None:
    _clock[:] = [time.perf_counter(), _cpu()]


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def run_here(system: str, folder: Path, kind: str, num_workers: int) -> Reading:
    """Run a system in this process."""
    import soundfile  # noqa: F401
    import torch
    import webdataset  # noqa: F401

    import headrace.streaming.loader  # noqa: F401

    torch.set_num_threads(1)
    memory = PeakMemory()
    _start_clock()
    count, first = 0, 0.0
    for num_samples in SYSTEMS[system](folder, kind, num_workers):
        first = first or time.perf_counter() - _clock[0]
        count += num_samples
    seconds, cpu = time.perf_counter() - _clock[0], _cpu() - _clock[1]
    return Reading(system, kind, count, seconds, first, cpu, memory.stop())


class PeakMemory:
    """Peak proportional memory of this process and its children, in MiB: shared pages count once."""

    def __init__(self) -> None:
        self._peak = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """The peak so far."""
        self._is_over.set()
        self._thread.join()
        return self._peak / 1024

    def _watch(self) -> None:
        while not self._is_over.wait(0.1):
            self._peak = max(self._peak, _tree_kib(os.getpid()))


def _tree_kib(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    own = next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return own + sum(_tree_kib(int(child)) for child in children)


def run_apart(system: str, folder: Path, kind: str, num_workers: int, python: str) -> Reading:
    """Run a system in a fresh process."""
    script = HERE / ("read_peers.py" if system in PEERS else "read.py")
    command = [
        python,
        str(script),
        "--run",
        system,
        "--kind",
        kind,
        "--folder",
        str(folder),
        "--workers",
        str(num_workers),
    ]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{system}: {done.stderr[-2000:]}")
    return Reading(**json.loads(done.stdout.splitlines()[-1]))


def hardware() -> dict[str, object]:
    """What the figures were taken on."""
    model = next((ln for ln in Path("/proc/cpuinfo").read_text().splitlines() if ln.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0))
    return {
        "cpu": model.partition(": ")[2],
        "cores": cores,
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }


def table(readings: list[Reading], kind: str) -> None:
    """Medians of one kind."""
    print(f"\n{kind}: samples/s (median, spread), of the limit, first batch s, CPU s, peak MiB")
    mine = [reading for reading in readings if reading.kind == kind]
    best = statistics.median(reading.rate for reading in mine if reading.system == "limit")
    for system in dict.fromkeys(reading.system for reading in mine):
        runs = [reading for reading in mine if reading.system == system]
        rates = sorted(reading.rate for reading in runs)
        middle = statistics.median(rates)
        first, cpu, peak = (
            statistics.median(getattr(run, name) for run in runs)
            for name in ("first_seconds", "cpu_seconds", "peak_mib")
        )
        print(
            f"  {system:22} {middle:9.0f} ({rates[0]:.0f}-{rates[-1]:.0f})  {middle / best:5.2f}  {first:6.3f}"
            f"  {cpu:6.2f}  {peak:7.0f}"
        )


def main() -> None:
    """Make the corpus, run everything in turn, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/headrace-bench-read"))
    parser.add_argument("--peers-python", help="an interpreter with numpy and nvidia-dali-cuda120")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--systems", default=";".join(SYSTEMS))
    parser.add_argument("--kinds", default="audio,latents")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "read.json")
    options = parser.parse_args()
    if options.run:
        print(json.dumps(asdict(run_here(options.run, options.folder, options.kind, options.workers))))
        return
    corpus = options.folder / str(options.clips)
    if not (corpus / "latents/sizes.json").exists():
        make_corpus(corpus, options.clips)
    systems = [name for name in SYSTEMS if name in options.systems.split(";")]
    readings = []
    for _ in range(options.rounds):
        for kind in options.kinds.split(","):
            chosen = [name for name in systems if not (kind == "latents" and name == "limit, soundfile")]
            peers = list(PEERS) if options.peers_python and kind == "audio" else []
            for name in [*chosen, *peers]:
                python = options.peers_python if name in PEERS else sys.executable
                readings.append(run_apart(name, corpus, kind, options.workers, python))
    for kind in options.kinds.split(","):
        table(readings, kind)
    options.out.parent.mkdir(exist_ok=True)
    result = {"hardware": hardware(), "clips": options.clips, "readings": [asdict(reading) for reading in readings]}
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
