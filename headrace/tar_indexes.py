"""Writing `.idx` files and `sizes.json` for tars that are there already.

Owns `headrace index`: which tars, in parallel, each index written whole, `sizes.json` last and only when every tar was
sound. What an index says is `indexing`'s business.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.index import index_name
from headrace.indexing import index_tar
from headrace.manifests import json_bytes
from headrace.ordered import map_in_order
from headrace.sizes import parse_sizes
from headrace.snapshots import snapshot_numbers
from headrace.storage import Storage
from headrace.streaming.shards.finding import find_shards
from headrace.tar import sha256_of


@dataclass(frozen=True, slots=True)
class IndexedTar:
    """What indexing one tar came to.

    Attributes:
        name: its path.
        num_samples: samples in it; 0 when it is not sound.
        num_bytes: its size.
        fault: why it could not be indexed; empty when it could.
    """

    name: str
    num_samples: int
    num_bytes: int
    fault: str = ""


def index_tars(
    pattern: str,
    *,
    num_threads: int,
    progress: Callable[[IndexedTar], None] = lambda tar: None,  # noqa: ARG005
) -> list[IndexedTar]:
    """Write the `.idx` of every tar that matches, and the `sizes.json` of their folders.

    A `sizes.json` that is there keeps its entries for other tars that still exist. With a fault in any tar none is
    written.

    Args:
        pattern: a folder, a shell glob or a brace pattern.
        num_threads: tars read at a time.
        progress: called as each tar is done.

    Raises:
        NotFoundError: nothing matches.
        ConfigError: the folder is an output of ours, whose indexes the build makes; or the tars are compressed.
    """
    found = find_shards(pattern, None)
    if not found.names:
        raise NotFoundError(f"{pattern}: no tars match; quote the pattern if the shell should not expand it")
    for folder in sorted({name.rpartition("/")[0] for name in found.names}):
        if snapshot_numbers(found.storage.at(folder) if folder else found.storage):
            raise ConfigError(
                f"{pattern}: lies in a data set that Headrace built; its indexes belong to the build, and "
                "`headrace verify` checks them"
            )
    if packed := [name for name in found.names if not name.endswith(".tar")]:
        raise ConfigError(f"{packed[0]}: compressed; an index holds byte ranges of a plain .tar, so unpack it first")
    results = list(_indexed(found.storage, found.names, num_threads, progress))
    if not any(result.fault for result in results):
        _write_sizes(found.storage, {result.name: result.num_samples for result in results})
    return results


def _indexed(
    storage: Storage, names: tuple[str, ...], num_threads: int, progress: Callable[[IndexedTar], None]
) -> Iterator[IndexedTar]:
    with ThreadPoolExecutor(num_threads, "index") as pool:
        for result in map_in_order(pool, lambda name: _index_one(storage, name), names, window=2 * num_threads):
            progress(result)
            yield result


def _index_one(storage: Storage, name: str) -> IndexedTar:
    num_bytes = storage.size(name)
    try:
        with storage.open(name) as file:
            sha256 = sha256_of(file)
            index = index_tar(file, name.rpartition("/")[2], num_bytes=num_bytes, sha256=sha256)
    except FormatError as error:
        return IndexedTar(name, 0, num_bytes, str(error))
    storage.write(index_name(name), index.to_bytes())
    return IndexedTar(name, len(index), num_bytes)


def _write_sizes(storage: Storage, counts: dict[str, int]) -> None:
    """`sizes.json` of every folder concerned."""
    for folder in sorted({name.rpartition("/")[0] for name in counts}):
        below = storage.at(folder) if folder else storage
        here = {name.rpartition("/")[2]: n for name, n in counts.items() if name.rpartition("/")[0] == folder}
        sizes = {name: count for name, count in read_sizes(below).items() if below.exists(name)} | here
        below.write("sizes.json", json_bytes(dict(sorted(sizes.items()))))


def read_sizes(storage: Storage) -> dict[str, int]:
    """The `sizes.json` of a folder; empty without one.

    Raises:
        FormatError: it is not one.
    """
    try:
        return parse_sizes(storage.read("sizes.json"), f"{storage.uri}/sizes.json")
    except NotFoundError:
        return {}
    except FormatError as error:
        raise FormatError(f"{error}. Here: remove it first") from error
