"""Which systems there are, and what each can be asked. Pure: no system is imported here."""

from dataclasses import dataclass

from benchmarks.peers.clips import BEST, DOCUMENTED

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
        is_limit: not a loader: reads bytes in memory and builds no batch.
        documented: kinds for which its documents show another way than its best one.
    """

    name: str
    module: str
    package: str
    kinds: tuple[str, ...] = (AUDIO, LATENTS)
    has_processes: bool = True
    is_limit: bool = False
    documented: tuple[str, ...] = (AUDIO, LATENTS)

    def forms(self, kind: str) -> tuple[str, ...]:
        """The forms to try for a kind."""
        return (BEST, DOCUMENTED) if kind in self.documented else (BEST,)

    def worker_counts(self, num_workers: int) -> tuple[int, ...]:
        """The settings to try; the best counts."""
        return (0, num_workers) if self.has_processes else (num_workers,)


OURS = System("headrace", "ours", "headrace", documented=())
LIMIT = System("limit", "limit", "headrace", has_processes=False, is_limit=True, documented=())
SYSTEMS = (
    LIMIT,
    System(
        "limit, soundfile", "limit_soundfile", "headrace", (AUDIO,), has_processes=False, is_limit=True, documented=()
    ),
    OURS,
    System("webdataset", "webdataset", "webdataset"),
    System("wids", "wids", "wids"),
    System("HF datasets", "huggingface", "datasets"),
    System("HF streaming", "huggingface_streaming", "datasets", (AUDIO,)),
    System("LitData", "litdata", "litdata"),
    System("MosaicML", "mosaic", "streaming"),
    System("LanceDB", "lance", "lancedb", has_processes=False),
    System("Grain", "arrayrecord", "grain"),
    System("Lhotse Shar", "lhotse", "lhotse", documented=(AUDIO,)),
    System("Energon", "energon", "megatron.energon"),
    System("SPDL", "spdl", "spdl.pipeline", has_processes=False),
    System("DALI", "dali", "nvidia.dali", (AUDIO,), has_processes=False),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A system in a form with a setting, and the interpreter that runs it."""

    system: System
    num_workers: int
    python: str
    form: str = BEST

    @property
    def label(self) -> str:
        """Name in printed tables."""
        return f"{self.system.name}, {self.num_workers}" + (", documented" if self.form == DOCUMENTED else "")
