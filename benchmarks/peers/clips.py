"""What every system is given: the same clips in our tars, sizes, a seed. Standard library only: any environment."""

import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Batch: TypeAlias = tuple[Any, Sequence[Any]]
"""Padded samples, float32 (B, [C,] N) or latents in their dtype (B, T, D), and the parsed JSON of each row."""

BATCH = 32
PER_SHARD = 50
SHUFFLE_BUFFER = 100
SEED = 7
FIELD = {"audio": "flac", "latents": "pth"}


def tars(corpus: Path, kind: str) -> list[str]:
    """The shards, in order."""
    return [str(path) for path in sorted((corpus / kind).glob("*.tar"))]


def members(tar: str, kind: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Key, payload and JSON of each sample of a shard: what conversions read."""
    with tarfile.open(tar) as file:
        blobs = {member.name: file.extractfile(member).read() for member in file}  # type: ignore[union-attr]
    for name, text in blobs.items():
        key, _, extension = name.partition(".")
        if extension == "json":
            yield key, blobs[f"{key}.{FIELD[kind]}"], text


def converted(corpus: Path, module: str, kind: str) -> Path:
    """Where a peer that does not read our tars has its own form of them."""
    return corpus / f"{module}-{kind}"


def once(folder: Path, make: Callable[[Path], object]) -> None:
    """Let `make` fill a new folder, which gets its name when it is whole; nothing where `folder` is there."""
    if folder.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        part = Path(scratch) / folder.name
        part.mkdir()
        make(part)
        part.rename(folder)


def warm(corpus: Path, module: str, kind: str) -> None:
    """Read what the system will read, so that every system finds it in the page cache."""
    own = converted(corpus, module, kind)
    for path in (own if own.exists() else corpus / kind).rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
