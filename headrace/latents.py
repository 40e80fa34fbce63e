"""Latent shards: from a partition's audio shards to the tars, indexes and manifest of what an encoder makes of them.

Owns what is wanted, what of it is there, and committing manifests and snapshots of latents. How audio becomes latents
is `headrace.encoding`'s business; which samples share a shard was decided when the audio was written: one latent
shard per audio shard, in the same order, under the same number.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.encoders import Encoder
from headrace.encoding.plans import (
    SECONDS_NOTE,
    EncodingOptions,
    EncodingRun,
    LatentDtype,
    LatentPlan,
)
from headrace.encoding.stats import EncodingStats
from headrace.errors import AlreadyExistsError, BuildError
from headrace.index import ShardIndex, index_name
from headrace.manifests import (
    Manifest,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    commit_manifest,
    file_sizes,
    newest_manifest,
    newest_manifests,
    read_manifest,
    sequence_of,
    split_of,
)
from headrace.shardwriter import ShardPlace, published_index
from headrace.snapshots import NumberedSnapshot, commit_snapshot, read_snapshot
from headrace.storage import Storage

__all__ = [
    "EncodingOptions",
    "LatentBuild",
    "LatentSettings",
    "build_latent_partition",
    "commit_latent_snapshot",
    "latent_origin",
]

LATENT_FORMAT = 1
PREFIX = "latent_"
_COMMIT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class LatentSettings:
    """What decides a partition's latents besides its audio shards.

    Attributes:
        encoder: fingerprint of the encoder, see `headrace.encoders.fingerprint`.
        dtype: how they are stored.
    """

    encoder: str
    dtype: LatentDtype = "float16"

    def wanted(self, audio: str) -> str:
        """What `Manifest.wanted` of up-to-date latents says, given the digest of the audio's manifest."""
        return _digest(audio, self.encoder, self.dtype)

    def input_digest(self, audio_shard: str) -> str:
        """What the latent shard of an audio shard is made from; the name holds the audio's digest."""
        return _digest(audio_shard, self.encoder, self.dtype)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join([str(LATENT_FORMAT), *parts]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class LatentBuild:
    """What building the latents of a partition came to.

    Attributes:
        manifest: the manifest that counts now.
        written: names of shards written by this build.
        reused: names of shards that were there already.
        is_new: whether a manifest was committed.
        stats: speed, padding, devices; zeros when nothing was encoded.
    """

    manifest: NumberedManifest
    written: tuple[str, ...]
    reused: tuple[str, ...]
    is_new: bool
    stats: EncodingStats


def build_latent_partition(  # noqa: PLR0913 - the five parts of a build, how fast, of which audio, and who watches it
    partition: str,
    settings: LatentSettings,
    encoders: Callable[[], Sequence[Encoder]],
    audio: Storage,
    storage: Storage,
    *,
    options: EncodingOptions | None = None,
    audio_snapshot: int | None = None,
    progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
) -> LatentBuild:
    """Bring the latent shards of one partition up to date with its audio shards.

    Shards that exist with the wanted input are used again, also those that a killed build left behind.

    Args:
        partition: for example `train-0003`.
        settings: which encoder, stored how.
        encoders: loads the encoder, once per device; called only when something must be encoded.
        audio: the folder of audio shards.
        storage: the folder of this set of latents.
        options: how fast.
        audio_snapshot: the audio snapshot to make latents of; None for the newest audio manifest of the partition.
        progress: called with a number of samples each time so many are done.

    Raises:
        BuildError: there is no such audio, the encoder is not the one of the settings, or other writers kept winning.
        SampleError: a sample cannot be decoded, or its latents are not finite numbers.
        IntegrityError: an audio shard is damaged.
    """
    source = audio_manifest(audio, partition, audio_snapshot).manifest
    for _ in range(_COMMIT_ATTEMPTS):
        previous = newest_manifest(storage, partition)
        wanted = settings.wanted(source.digest)
        there = file_sizes(storage, _file_prefix(partition))
        if previous is not None and previous.manifest.wanted == wanted and previous.manifest.is_whole(there):
            names = tuple(shard.name for shard in previous.manifest.shards)
            progress(previous.manifest.num_samples)
            return LatentBuild(previous, (), names, is_new=False, stats=EncodingStats())
        plans = _plans(source, settings)
        found = _existing(storage, partition, plans, previous)
        progress(sum(len(index) for index in found.values()))
        missing = [plan for plan in plans if plan.input_digest not in found]
        stats = EncodingStats()
        if missing:
            route = EncodingRun(audio, storage, settings.dtype, options or EncodingOptions(), progress, _held(previous))
            new, stats = _encode(missing, encoders, settings, route)
            found |= new
        entries = tuple(_entry(plan, found[plan.input_digest]) for plan in plans)
        manifest = Manifest(partition, wanted, source.digest, {}, entries)
        try:
            committed = commit_manifest(storage, manifest, previous)
        except AlreadyExistsError:
            continue
        there = file_sizes(storage, _file_prefix(partition))  # a gc may have removed what was old and is used again
        if not manifest.is_whole(there):
            continue
        written = {plan.input_digest for plan in missing}
        return LatentBuild(
            committed,
            tuple(entry.name for entry in entries if entry.input_digest in written),
            tuple(entry.name for entry in entries if entry.input_digest not in written),
            is_new=True,
            stats=stats,
        )
    raise BuildError(
        f"{partition}: other writers kept committing these latents, or removing their shards; stop them and build again"
    )


def _encode(
    plans: Sequence[LatentPlan],
    encoders: Callable[[], Sequence[Encoder]],
    settings: LatentSettings,
    route: EncodingRun,
) -> tuple[dict[str, ShardIndex], EncodingStats]:
    """Load the encoders and make these shards. Returns their indexes by input digest, and figures."""
    from headrace.encoding.shards import encode_shards  # noqa: PLC0415 - torch comes in only here

    return encode_shards(plans, _checked(encoders(), settings), route)


def audio_manifest(audio: Storage, partition: str, snapshot: int | None = None) -> NumberedManifest:
    """The audio manifest of a partition that latents are made from: the newest, or the one that a snapshot froze.

    Raises:
        BuildError: the partition has no audio shards yet, or the snapshot does not have the partition.
    """
    if snapshot is None:
        newest = newest_manifest(audio, partition)
        if newest is None:
            raise BuildError(
                f"{partition}: no audio shards in {audio.uri}; build the audio shards of this partition first"
            )
        return newest
    numbers = read_snapshot(audio, snapshot).snapshot.manifests
    if partition not in numbers:
        raise BuildError(
            f"{partition}: not in audio snapshot {snapshot}; it has {', '.join(sorted(numbers)) or 'none'}"
        )
    return read_manifest(audio, partition, numbers[partition])


def latent_origin(
    audio: NumberedSnapshot, storage: Storage, manifests: Sequence[NumberedManifest], settings: LatentSettings
) -> dict[str, object]:
    """What a snapshot of latents says of where they come from: audio snapshot, encoder, frame rate."""
    names = [shard.name for numbered in manifests for shard in numbered.manifest.shards]
    rate_hz = 0.0
    if names:
        path = index_name(names[0])
        rate_hz = ShardIndex.from_bytes(storage.read(path), path).latent_rate_hz
    return {
        "audio_snapshot": audio.number,
        "audio_fingerprint": audio.snapshot.fingerprint,
        "encoder": settings.encoder,
        "dtype": settings.dtype,
        "frame_rate_hz": rate_hz,
    }


def commit_latent_snapshot(
    audio: Storage, storage: Storage, settings: LatentSettings, *, audio_snapshot: int | None = None
) -> tuple[NumberedSnapshot, bool]:
    """Commit the latents of an audio snapshot (None: the newest) as a snapshot that names it; see `commit_snapshot`.

    Returns:
        The newest snapshot of latents, and whether it is new.

    Raises:
        BuildError: some partitions' latents are missing or of other audio or another encoder; the message names them.
        AlreadyExistsError: another writer committed meanwhile: decide again.
    """
    origin = read_snapshot(audio, audio_snapshot)
    newest = newest_manifests(storage)
    manifests: dict[str, NumberedManifest] = {}
    stale = []
    for partition, number in origin.snapshot.manifests.items():
        source = read_manifest(audio, partition, number).manifest
        if partition in newest and newest[partition].wanted == settings.wanted(source.digest):
            manifests[partition] = newest[partition]
        else:
            stale.append(partition)
    if stale:
        names = ", ".join(stale)
        raise BuildError(
            f"{storage.uri}: no latents of audio snapshot {origin.number} for {names}; build these partitions first"
        )
    facts = latent_origin(origin, storage, list(manifests.values()), settings)
    return commit_snapshot(storage, manifests, origin.snapshot.catalog, facts)


def _plans(source: Manifest, settings: LatentSettings) -> list[LatentPlan]:
    """One latent shard for each audio shard that holds samples."""
    split, bucket = split_of(source.partition), bucket_of(source.partition)
    return [
        LatentPlan(
            audio_shard=shard.name,
            seconds=shard.seconds,
            place=ShardPlace(split, bucket, sequence_of(shard.name), PREFIX),
            input_digest=settings.input_digest(shard.name),
        )
        for shard in source.shards
        if shard.num_samples
    ]


def _held(previous: NumberedManifest | None) -> dict[str, str]:
    """Key of each sample → the latent shard that holds it."""
    shards = previous.manifest.shards if previous is not None else ()
    return {key: shard.name for shard in shards for key in shard.samples}


def _existing(
    storage: Storage, partition: str, plans: Sequence[LatentPlan], previous: NumberedManifest | None
) -> dict[str, ShardIndex]:
    """Indexes of whole latent shards that were made from what is wanted now, by input digest."""
    wanted = {plan.input_digest for plan in plans}
    names = [shard.name for shard in previous.manifest.shards if shard.input_digest in wanted] if previous else []
    if len(names) < len(wanted):
        names = [entry.path for entry in storage.list(_file_prefix(partition)) if entry.path.endswith(".tar")]
    indexes = [index for name in names if (index := published_index(storage, name)) is not None]
    return {index.input_digest: index for index in indexes if index.input_digest in wanted}


def _file_prefix(partition: str) -> str:
    """What the names of a partition's latent shards begin with."""
    return f"{PREFIX}{split_of(partition)}_{bucket_of(partition):04d}_"


def _checked(encoders: Sequence[Encoder], settings: LatentSettings) -> Sequence[Encoder]:
    for encoder in encoders:
        if encoder.fingerprint != settings.encoder:
            raise BuildError(
                f"the loaded encoder has fingerprint {encoder.fingerprint[:12]}, {settings.encoder[:12]} was asked "
                "for; its weights changed meanwhile: build again"
            )
    if not encoders:
        raise BuildError("no encoder was loaded: name at least one device, for example cpu")
    return encoders


def _entry(plan: LatentPlan, index: ShardIndex) -> ShardEntry:
    return ShardEntry(
        name=index.shard,
        num_bytes=index.num_bytes,
        num_samples=len(index),
        num_frames=int(index.num_frames.sum()),
        seconds=float(index.notes[SECONDS_NOTE]),
        input_digest=plan.input_digest,
        samples=tuple(index.keys()),
    )
