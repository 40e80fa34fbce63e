"""Which systems there are, and what each can be asked. Pure: no system is imported here."""

from dataclasses import dataclass

AUDIO, LATENTS = "audio", "latents"


@dataclass(frozen=True, slots=True)
class System:
    """One row of the tables.

    Attributes:
        name: as printed.
        module: file of this package that reads with it.
        package: what an interpreter must have to run it.
        kinds: what it can read.
        has_processes: workers are processes, so it is tried without any, too; else threads, one for each core.
        is_limit: not a loader: bytes lie ready and no batch comes of it.
    """

    name: str
    module: str
    package: str
    kinds: tuple[str, ...] = (AUDIO, LATENTS)
    has_processes: bool = True
    is_limit: bool = False

    def worker_counts(self, num_workers: int) -> tuple[int, ...]:
        """The settings to try; the best counts."""
        return (0, num_workers) if self.has_processes else (num_workers,)


OURS = System("headrace", "ours", "headrace")
LIMIT = System("limit", "limit", "headrace", has_processes=False, is_limit=True)
SYSTEMS = (
    LIMIT,
    System("limit, soundfile", "limit_soundfile", "headrace", (AUDIO,), has_processes=False, is_limit=True),
    OURS,
    System("webdataset", "webdataset", "webdataset"),
    System("wids", "wids", "wids"),
    System("HF datasets", "huggingface", "datasets"),
    System("HF streaming", "huggingface_streaming", "datasets", (AUDIO,)),
    System("LitData", "litdata", "litdata"),
    System("MosaicML", "mosaic", "streaming"),
    System("Lhotse Shar", "lhotse", "lhotse", (AUDIO,)),
    System("Energon", "energon", "megatron.energon"),
    System("SPDL", "spdl", "spdl.pipeline", has_processes=False),
    System("DALI", "dali", "nvidia.dali", (AUDIO,), has_processes=False),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A system with a setting and the interpreter that runs it."""

    system: System
    num_workers: int
    python: str

    @property
    def label(self) -> str:
        """As printed."""
        return f"{self.system.name}, {self.num_workers}"
