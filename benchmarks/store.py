"""Reading FLAC from an object store: cold and warm cache, and through a slow, distant connection.

    python benchmarks/store.py [--clips 1500] [--rounds 3] [--mib-per-second 50] [--latency-ms 30]

The corpus of `read.py` is copied to the bucket `headrace-bench`: of the S3 server that `AWS_ENDPOINT_URL` names (with
`AWS_ACCESS_KEY_ID` and so on), else of a moto server in a process of its own, which is slower than any real store. Each
reading is a fresh process:

- *limit*: all shards fetched, eight at a time, and dropped.
- *cold*: an epoch into an empty cache.
- *warm*: the same when all shards are in the cache.
- *far limit*, *far cold*, *far warm*: the same through a proxy that adds `--latency-ms` to every request and lets all
  connections together pass no more than `--mib-per-second`.
- *far webdataset*: the same tars through webdataset with `curl`, two worker processes, shards and a buffer of 100
  samples shuffled, FLAC by the same decoder. It keeps no shard, so each epoch is like the first.

Reported: samples/s, seconds to the first batch, MiB fetched in relation to the shards' own, requests, and how near the
limit it is. Medians of `--rounds`, all modes in turn; of the time to the first batch also the least. Writes
`results/store.json`.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks.peers` and `tests` from the checkout

from headrace.stores.storage import Storage, open_storage  # noqa: E402

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

BATCH = 32
FETCHES = 8
MODES = ("limit", "cold", "warm", "far limit", "far cold", "far warm", "far webdataset")
COPY_BYTES = 1 << 16
BUCKET = "headrace-bench"


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the whole corpus; a limit has no batches, and counts the samples of the shards."""

    mode: str
    num_samples: int
    seconds: float
    first_seconds: float
    num_bytes_fetched: int
    num_requests: int = 0

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.num_samples / self.seconds


def fetch_all(uri: str, sizes: dict[str, int]) -> Reading:
    """The limit: every shard, several at a time."""
    storage: Storage = open_storage(uri)
    start = time.perf_counter()
    with ThreadPoolExecutor(FETCHES) as pool:
        num_bytes = sum(pool.map(lambda name: len(storage.read(name)), sizes))
    seconds = time.perf_counter() - start
    return Reading("limit", sum(sizes.values()), seconds, seconds, num_bytes, len(sizes))


def read_all(uri: str, cache: str) -> Reading:
    """An epoch through the loader."""
    import headrace.streaming.loader  # noqa: F401, PLC0415 - its imports are not measured
    from headrace import StreamingDataLoader, StreamingDataset  # noqa: PLC0415

    start = time.perf_counter()
    loader = StreamingDataLoader(StreamingDataset(remote=uri, local=cache, batch_size=BATCH, shuffle=True))
    first, count = 0.0, 0
    for batch in loader:
        first = first or time.perf_counter() - start
        count += sum(map(bool, batch["keys"]))
    seconds = time.perf_counter() - start
    stats = loader.stats
    return Reading("", count, seconds, first, stats.num_bytes_fetched, stats.num_requests)


def read_webdataset(uri: str, sizes: dict[str, int]) -> Reading:
    """An epoch through webdataset; `curl` is asked for each shard once, so the bytes are those of the shards."""
    import webdataset as wds  # noqa: PLC0415 - only here

    from benchmarks.peers.batches import decoded, padded  # noqa: PLC0415 - its imports are not measured
    from benchmarks.peers.clips import SHUFFLE_BUFFER, Run  # noqa: PLC0415

    run, name = Run("webdataset", Path(), "audio", 2), uri.removeprefix("s3://")
    start = time.perf_counter()
    urls = [f"{os.environ['AWS_ENDPOINT_URL']}/{name}/{shard}" for shard in sizes]
    dataset = wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False).shuffle(SHUFFLE_BUFFER)
    dataset = dataset.map(lambda sample: decoded(run, sample["flac"], sample["json"])).batched(BATCH, padded)
    first, count = 0.0, 0
    for batch, _ in wds.WebLoader(dataset, batch_size=None, num_workers=run.num_workers):
        first = first or time.perf_counter() - start
        count += len(batch)
    seconds = time.perf_counter() - start
    storage: Storage = open_storage(uri)
    return Reading("", count, seconds, first, sum(map(storage.size, sizes)), len(sizes))


@contextmanager
def moto() -> Iterator[str]:
    """An S3 server of our own."""
    code = (
        "from moto.server import ThreadedMotoServer as S\n"
        "s = S(ip_address='127.0.0.1', port=0, verbose=False); s.start()\n"
        "print('http://{}:{}'.format(*s.get_host_and_port()), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def proxy(
    endpoint: str, bytes_per_second: float, latency_seconds: float, moved: "Synchronized[int] | None" = None
) -> Iterator[str]:
    """A slow way to an endpoint, in a process of its own; the bytes that come back are added to `moved`."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(
        target=_run_proxy, args=(there, endpoint, bytes_per_second, latency_seconds, moved), daemon=True
    )
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.kill()
        process.join()


def _run_proxy(
    said: Connection,
    endpoint: str,
    bytes_per_second: float,
    latency_seconds: float,
    moved: "Synchronized[int] | None",
) -> None:
    target = urlsplit(endpoint)
    free_at = 0.0  # when the line is free again; one line for all connections

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(COPY_BYTES):
            await asyncio.sleep(latency_seconds)
            writer.write(chunk)
            await writer.drain()
        writer.close()

    async def downstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal free_at
        while chunk := await reader.read(COPY_BYTES):
            if moved is not None:
                moved.value += len(chunk)
            free_at = max(free_at, time.monotonic()) + len(chunk) / bytes_per_second
            await asyncio.sleep(max(0.0, free_at - time.monotonic()))
            writer.write(chunk)
            await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(upstream(reader, far_writer), downstream(far_reader, writer), return_exceptions=True)

    async def serve() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        said.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def upload(folder: Path, uri: str) -> None:
    """Copy the shard folder into the bucket, unless it is there."""
    storage = open_storage(uri)
    there = {entry.path for entry in storage.list()}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if (name := path.relative_to(folder).as_posix()) not in there:
            storage.write(name, path.read_bytes())


def run_apart(mode: str, uri: str, endpoint: str, cache: Path, sizes: Path) -> Reading:
    """One reading in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", mode, uri, str(cache), str(sizes)],
        capture_output=True, text=True, env=os.environ | {"AWS_ENDPOINT_URL": endpoint, "OMP_NUM_THREADS": "1"},
        check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{mode}: {done.stderr[-4000:]}")
    return Reading(**json.loads(done.stdout.splitlines()[-1]))


def one(mode: str, uri: str, cache: str, sizes: str) -> None:
    """Read in a fresh process, and print the reading as JSON."""
    names = json.loads(Path(sizes).read_text())
    if "webdataset" in mode:
        found = read_webdataset(uri, names)
    else:
        found = fetch_all(uri, names) if "limit" in mode else read_all(uri, cache)
    print(json.dumps(asdict(found) | {"mode": mode}))


def measure(options: argparse.Namespace, corpus: Path, endpoint: str, scratch: Path) -> list[Reading]:
    """All modes in turn, `rounds` times."""
    uri, sizes = f"s3://{BUCKET}/audio-{corpus.name}", corpus / "audio/sizes.json"
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=BUCKET)
    upload(corpus / "audio", uri)
    cache = scratch / "cache"
    readings = []
    with proxy(endpoint, options.mib_per_second * (1 << 20), options.latency_ms / 1000) as far:
        for number in range(options.rounds):
            for mode in MODES:
                if "warm" not in mode:
                    shutil.rmtree(cache, ignore_errors=True)
                readings.append(run_apart(mode, uri, far if "far" in mode else endpoint, cache, sizes))
                said = f"round {number + 1}: {mode}, {readings[-1].rate:.0f} samples/s"
                print(said, file=sys.stderr, flush=True)
    return readings


def show(readings: list[Reading], num_bytes: int) -> None:
    """Print medians."""
    by_mode = {mode: [reading for reading in readings if reading.mode == mode] for mode in MODES}
    rates = {mode: statistics.median(reading.rate for reading in found) for mode, found in by_mode.items()}
    print("| reading | samples/s | range | of its limit | first batch, s | least | fetched, of the shards | requests |")
    print("|---|---|---|---|---|---|---|---|")
    for mode, found in by_mode.items():
        limit = rates["far limit" if "far" in mode else "limit"]
        span = f"{min(reading.rate for reading in found):.0f}-{max(reading.rate for reading in found):.0f}"
        firsts = [reading.first_seconds for reading in found]
        fetched = statistics.median(reading.num_bytes_fetched for reading in found) / num_bytes
        speed = f"{rates[mode]:.0f} | {span} | {rates[mode] / limit:.2f}"
        requests = statistics.median(reading.num_requests for reading in found)
        first = f"{statistics.median(firsts):.2f} | {min(firsts):.2f}"
        print(f"| {mode} | {speed} | {first} | {fetched:.3f} | {requests:.0f} |")


def main() -> None:
    """Make the corpus, measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=1500)
    parser.add_argument("--per-shard", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib-per-second", type=float, default=50.0)
    parser.add_argument("--latency-ms", type=float, default=30.0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "headrace-bench-read")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/store.json")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)  # one reading, in a process of its own
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    corpus = options.folder / f"{options.clips}-{options.per_shard}"
    if not (corpus / "latents-npy").exists():
        from benchmarks.peers.corpus import make  # noqa: PLC0415 - torch, and only the first time

        make(corpus, options.clips, options.per_shard)
    given = os.environ.get("AWS_ENDPOINT_URL")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "test")
    os.environ.setdefault("AWS_REGION", "us-east-1")
    with tempfile.TemporaryDirectory() as scratch, moto() as own:
        os.environ["AWS_ENDPOINT_URL"] = given or own
        readings = measure(options, corpus, given or own, Path(scratch))
    num_bytes = sum(path.stat().st_size for path in (corpus / "audio").glob("*.tar"))
    show(readings, num_bytes)
    about = {"server": "given" if given else "moto", "clips": options.clips, "per_shard": options.per_shard}
    about |= {"mib_per_second": options.mib_per_second, "latency_ms": options.latency_ms, "num_bytes": num_bytes}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(about | {"readings": [asdict(reading) for reading in readings]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
