"""Input of every system: equal clips in our tars, sizes, a seed. Standard library only, for any environment."""

import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Batch: TypeAlias = tuple[Any, Sequence[Any]]
"""Padded samples, float32 (B, [C,] N) or latents in their dtype (B, T, D), and the parsed JSON of each row."""

DOCUMENTED, BEST = "documented", "best"
"""Forms of a system: as its documents show it, with libsndfile and `torch.load`; or with our FLAC decoder wherever it
can take one, and latents as arrays of its own format."""

BATCH = 32
SHUFFLE_BUFFER = 100
SEED = 7
FIELD = {"audio": "flac", "latents": "pth"}
ARRAY_FIELD = "npy"
LATENT_SHAPE = (500, 256)


@dataclass(frozen=True, slots=True)
class Run:
    """Settings of one run.

    Attributes:
        module: file of this package that reads.
        corpus: folder with `audio/` and `latents/`.
        kind: `audio` or `latents`.
        num_workers: processes, or threads.
        form: `documented` or `best`.
    """

    module: str
    corpus: Path
    kind: str
    num_workers: int
    form: str = BEST

    @property
    def is_best(self) -> bool:
        """Whether the system is used at its best, not as documented."""
        return self.form == BEST

    @property
    def field(self) -> str:
        """Extension of the payload in the tars that this run reads."""
        return ARRAY_FIELD if self.has_arrays else FIELD[self.kind]

    @property
    def has_arrays(self) -> bool:
        """Whether latents are arrays of the system's own format and not `.pth`."""
        return self.is_best and self.kind == "latents"

    @property
    def own(self) -> Path:
        """Folder of the corpus in the system's own form, if the system does not read our tars."""
        return self.corpus / f"{self.module}-{self.kind}-{self.form if self.kind == 'latents' else 'bytes'}"

    @property
    def per_shard(self) -> int:
        """Samples in a full shard."""
        sizes: dict[str, int] = json.loads((self.corpus / self.kind / "sizes.json").read_text())
        return max(sizes.values())


def tars(run: Run) -> list[str]:
    """The shards of samples as they are, in order."""
    return _tars(run.corpus / run.kind)


def tars_for(run: Run) -> list[str]:
    """The shards that a reader of WebDataset tars is given: with latents as `.npy` in its best form."""
    return _tars(array_tars(run) if run.has_arrays else run.corpus / run.kind)


def array_tars(run: Run) -> Path:
    """A folder of the same shards with latents as `.npy`; made by `corpus.make`."""
    return run.corpus / "latents-npy"


def _tars(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("*.tar"))]


def members(tar: str, kind: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Key, payload and JSON of each sample of a shard: what conversions read."""
    with tarfile.open(tar) as file:
        blobs = {member.name: file.extractfile(member).read() for member in file}  # type: ignore[union-attr]
    for name, text in blobs.items():
        key, _, extension = name.partition(".")
        if extension == "json":
            yield key, blobs[f"{key}.{FIELD[kind]}"], text


def once(folder: Path, make: Callable[[Path], object]) -> None:
    """Let `make` fill a new folder, which gets its name when it is whole; nothing where `folder` is there."""
    if folder.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        part = Path(scratch) / folder.name
        part.mkdir()
        make(part)
        part.rename(folder)


def warm(run: Run) -> None:
    """Read what the system will read, so that every system finds it in the page cache."""
    given = Path(tars_for(run)[0]).parent
    for path in (run.own if run.own.exists() else given).rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
