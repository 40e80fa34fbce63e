"""The loaders of `race.py`, one function each: batches of FLAC clips from a store, as the loader's documents say.

`python -m benchmarks._race_readers SYSTEM PLACE` reads one epoch in this process, which is of the loader's own
environment, and prints a JSON object; PLACE is one, too (`Place`).
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.clips import BATCH, SEED, SHUFFLE_BUFFER, Run

RUN = Run("race", Path(), "audio", 2)
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

Sizes = Iterator[int]
"""The number of samples of each batch."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the data.

    Attributes:
        endpoint: URL of the S3 server, or of the proxy before it.
        uri: `s3://BUCKET/PREFIX` of the data in the loader's own form.
        cache: folder for what the loader keeps.
        shards: name → number of samples, of WebDataset shards.
    """

    endpoint: str
    uri: str
    cache: str
    shards: dict[str, int]

    @property
    def urls(self) -> list[str]:
        """The shards by plain HTTP: the bucket may be read by everybody."""
        return [f"{self.endpoint}/{self.uri.removeprefix('s3://')}/{name}" for name in self.shards]


def headrace() -> Callable[[Place], Sizes]:
    """Its defaults, with a cache folder."""
    import headrace.streaming.loader  # noqa: F401, PLC0415
    from headrace import StreamingDataLoader, StreamingDataset  # noqa: PLC0415

    def read(place: Place) -> Sizes:
        dataset = StreamingDataset(remote=place.uri, local=place.cache, batch_size=BATCH, shuffle=True)
        for batch in StreamingDataLoader(dataset):
            yield sum(map(bool, batch["keys"]))

    return read


def webdataset() -> Callable[[Place], Sizes]:
    """`curl`, its cache of whole shards, two workers."""
    import webdataset as wds  # noqa: PLC0415

    from benchmarks.peers.batches import decoded, padded  # noqa: PLC0415

    def read(place: Place) -> Sizes:
        dataset = wds.WebDataset(
            place.urls, shardshuffle=len(place.urls), cache_dir=place.cache, empty_check=False
        ).shuffle(SHUFFLE_BUFFER)
        dataset = dataset.map(lambda sample: decoded(RUN, sample["flac"], sample["json"])).batched(BATCH, padded)
        for batch, _ in wds.WebLoader(dataset, batch_size=None, num_workers=RUN.num_workers):
            yield len(batch)

    return read


def wids() -> Callable[[Place], Sizes]:
    """Its chunked sampler, its cache folder, all shards kept open, two workers."""
    import torch  # noqa: PLC0415
    import wids as library  # noqa: PLC0415

    from benchmarks.peers.batches import decoded, padded  # noqa: PLC0415

    class Clips(torch.utils.data.Dataset[Any]):
        def __init__(self, place: Place) -> None:
            shards = [{"url": url, "nsamples": n} for url, n in zip(place.urls, place.shards.values(), strict=True)]
            self.samples = library.ShardListDataset(
                shards, cache_dir=place.cache, transformations=[], lru_size=len(shards), keep=True
            )

        def __len__(self) -> int:
            return len(self.samples)

        def __getitem__(self, number: int) -> Any:  # noqa: ANN401
            sample = self.samples[number]
            return decoded(RUN, sample[".flac"].read(), sample[".json"].read())

    def read(place: Place) -> Sizes:
        clips = Clips(place)
        sampler = library.DistributedChunkedSampler(clips, shuffle=True)
        loader = torch.utils.data.DataLoader(
            clips, BATCH, sampler=sampler, num_workers=RUN.num_workers, collate_fn=padded
        )
        for batch, _ in loader:
            yield len(batch)

    return read


def litdata() -> Callable[[Place], Sizes]:
    """Its StreamingDataset and StreamingDataLoader with a cache folder, two workers."""
    import litdata as library  # noqa: PLC0415

    from benchmarks.peers.batches import collated_rows  # noqa: PLC0415

    def read(place: Place) -> Sizes:
        secrets = dict(zip(("aws_access_key_id", "aws_secret_access_key"), map(os.environ.get, KEYS), strict=True))
        rows = library.StreamingDataset(
            place.uri, cache_dir=place.cache, shuffle=True, drop_last=False, seed=SEED,
            storage_options={"endpoint_url": place.endpoint, "region_name": "us-east-1"} | secrets,
        )  # fmt: skip
        loader = library.StreamingDataLoader(
            rows, batch_size=BATCH, num_workers=RUN.num_workers, collate_fn=lambda found: collated_rows(RUN, found)
        )
        for batch, _ in loader:
            yield len(batch)

    return read


def mosaic() -> Callable[[Place], Sizes]:
    """Its StreamingDataset with `remote` and `local`, two workers."""
    from benchmarks.peers.batches import collated_rows  # noqa: PLC0415
    from benchmarks.peers.mosaic import StreamingDataLoader, StreamingDataset, clean_stale_shared_memory  # noqa: PLC0415

    def read(place: Place) -> Sizes:
        os.environ["S3_ENDPOINT_URL"] = place.endpoint
        clean_stale_shared_memory()
        rows = StreamingDataset(remote=place.uri, local=place.cache, shuffle=True, batch_size=BATCH, shuffle_seed=SEED)
        loader = StreamingDataLoader(
            rows, batch_size=BATCH, num_workers=RUN.num_workers, collate_fn=lambda found: collated_rows(RUN, found)
        )
        for batch, _ in loader:
            yield len(batch)

    return read


def lance() -> Callable[[Place], Sizes]:
    """LanceDB's StreamingDataset, in clumps of neighbours, its transform threads; it has no cache on a disk."""
    import lancedb  # noqa: PLC0415
    import torch  # noqa: PLC0415

    from benchmarks.peers.batches import decoded, padded  # noqa: PLC0415
    from benchmarks.peers.lance import CLUMP, TABLE, StreamingDataset  # noqa: PLC0415

    def transform(batch: Any) -> list[Any]:  # noqa: ANN401 - pyarrow has no types
        columns = zip(batch["payload"], batch["json"].to_pylist(), strict=True)
        return [decoded(RUN, memoryview(payload.as_buffer()), text) for payload, text in columns]

    def read(place: Place) -> Sizes:
        options = {"aws_endpoint": place.endpoint, "allow_http": "true", "aws_region": "us-east-1"}
        table = lancedb.connect(place.uri, storage_options=options).open_table(TABLE)
        rows = StreamingDataset(table, shuffle_seed=SEED, transform=transform, shuffle_clump_size=CLUMP)
        for batch, _ in torch.utils.data.DataLoader(rows, batch_size=BATCH, collate_fn=padded):
            yield len(batch)

    return read


SYSTEMS = {one.__name__: one for one in (headrace, webdataset, wids, litdata, mosaic, lance)}


def main() -> None:
    """Read one epoch; imports are not measured."""
    read, place = SYSTEMS[sys.argv[1]](), Place(**json.loads(sys.argv[2]))
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    begun, cpu = time.perf_counter(), sum(os.times()[:4])
    first, count = 0.0, 0
    for size in read(place):
        first = first or time.perf_counter() - begun
        count += size
    seconds, cpu = time.perf_counter() - begun, sum(os.times()[:4]) - cpu
    print("\n" + json.dumps({"num_samples": count, "seconds": seconds, "first_seconds": first, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
