"""Brings several sets of latents of one partition up to date at the same time, from audio that is read once.

Each set is built as by itself, with its own plan, manifest and rejections. `headrace.encoding.shared_audio` holds the
audio.
"""

import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.assemble.update import PartitionBuild
from headrace.encoders import Encoder
from headrace.encoding.plans import EncodingOptions
from headrace.encoding.shared_audio import SharedAudio
from headrace.stores.storage import Storage

BuiltOrError: TypeAlias = PartitionBuild | BaseException


@dataclass(frozen=True, slots=True)
class LatentSet:
    """A set of latents of audio; the attributes are those of `build_latent_partition`."""

    name: str
    settings: LatentSettings
    encoders: Callable[[], Sequence[Encoder]]
    storage: Storage


def build_latent_partitions(
    partition: str,
    sets: Sequence[LatentSet],
    audio: Storage,
    *,
    options: EncodingOptions | None = None,
    progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
) -> dict[str, BuiltOrError]:
    """Bring a partition of several sets of latents up to date with its audio shards.

    The shards are those that each set makes by itself. The models of all sets are in memory at the same time.

    Args:
        partition: for example `train-0003`.
        sets: the sets, which are of audio and have distinct names. Their encoders are loaded one after the other.
        audio: the folder of audio shards.
        options: batch size, and threads of each set.
        progress: called with a number of samples each time this many of a set are done; never twice at a time.

    Returns:
        Name → the build, or the error that `build_latent_partition` raised: a set that fails stops only itself.
    """
    shared = SharedAudio(audio, [one.name for one in sets])
    counting, loading = threading.Lock(), threading.Lock()

    def count(num_samples: int) -> None:
        with counting:
            progress(num_samples)

    def loaded(one: LatentSet) -> Sequence[Encoder]:
        with loading:
            return one.encoders()

    def build(one: LatentSet) -> PartitionBuild:
        with shared.part(one.name) as part:
            return build_latent_partition(
                partition,
                one.settings,
                partial(loaded, one),
                audio,
                one.storage,
                options=options,
                progress=count,
                shared=part,
            )

    with ThreadPoolExecutor(len(sets), "headrace-latents") as pool:
        builds = {one.name: pool.submit(build, one) for one in sets}
        try:
            wait(builds.values())
        except BaseException:  # Ctrl-C: finished shards are kept
            shared.stop()
            raise
    return {name: _without_locals(build.exception()) or build.result() for name, build in builds.items()}


def _without_locals(error: BaseException | None) -> BaseException | None:
    """An error whose frames hold nothing any more, such as the memory of a model."""
    link = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error
