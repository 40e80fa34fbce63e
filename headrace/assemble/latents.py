"""Brings the latent shards of a partition up to date with its audio shards.

There is one latent shard for each audio shard that has samples, with the same samples in the same order and under the
same sequence number. `headrace.encoding` computes the latents and writes the shards.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.assemble.build_reasons import BuildReason
from headrace.assemble.partition_columns import source_parts
from headrace.assemble.update import PartitionBuild, PartitionTarget, bring_up_to_date
from headrace.encoders import Encoder
from headrace.encoding.plans import (
    SECONDS_NOTE,
    EncodingOptions,
    EncodingRun,
    LatentDtype,
    LatentPlan,
)
from headrace.encoding.shared_audio import SharedPart
from headrace.encoding.stats import EncodingStats
from headrace.errors import BuildError, HeadraceError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.made_by import MadeShards, made_shards
from headrace.format.manifests.manifests import (
    Manifest,
    ManifestRejection,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    newest_manifest,
    rejections_of,
    sequence_of,
    split_of,
)
from headrace.format.manifests.stored_census import StoredCensus, census_of
from headrace.format.shards.writer import ShardPlace, published_index
from headrace.output_kinds import LATENT_PREFIX
from headrace.stores.storage import Storage

LATENT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LatentSettings:
    """The settings that, together with the audio shards, decide the latents of a partition.

    Attributes:
        encoder: fingerprint of the encoder, see `headrace.encoders.fingerprint`.
        dtype: dtype of the stored latents.
        audio_field: name of the audio field that the latents are made from; empty for the first.
        column: the metadata column with the texts that they are made from; empty for latents of audio.
    """

    encoder: str
    dtype: LatentDtype = "float16"
    audio_field: str = ""
    column: str = ""

    def wanted(self, audio: str) -> str:
        """`Manifest.wanted` of up-to-date latents, given the digest of the audio manifest."""
        return _digest(audio, *self._parts)

    def reasons(self, found: Manifest, source: str) -> Mapping[BuildReason, bool]:
        """See `headrace.assemble.build_reasons.Settings`."""
        is_of_set = "." in self.column
        (audio, rows), (of_audio, of_rows) = source_parts(source), source_parts(found.source)
        return {
            BuildReason.AUDIO: of_audio != audio if is_of_set else found.source != source,
            BuildReason.ROWS: is_of_set and of_rows != rows,
            BuildReason.ENCODER: found.wanted != self.wanted(found.source),
        }

    def input_digest(self, audio_shard: str, columns: str = "") -> str:
        """Input digest of the latents of an audio shard, and of columns, whose names hold digests of their bytes."""
        return _digest(audio_shard, *([columns] if columns else []), *self._parts)

    @property
    def _parts(self) -> list[str]:
        text = [f"column {self.column}"] if self.column else []
        return [self.encoder, self.dtype, *([self.audio_field] if self.audio_field else []), *text]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join([str(LATENT_FORMAT), *parts]).encode()).hexdigest()


def build_latent_partition(  # noqa: PLR0913 - the five parts of a build, how fast, and who watches it
    partition: str,
    settings: LatentSettings,
    encoders: Callable[[], Sequence[Encoder]],
    audio: Storage,
    storage: Storage,
    *,
    options: EncodingOptions | None = None,
    progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
    columns: Storage | None = None,
    shared: SharedPart | None = None,
) -> PartitionBuild:
    """Bring the latent shards of one partition up to date with its audio shards.

    Shards that were made from the wanted input are reused, including those of an interrupted build. A sample whose
    latents are not finite, or do not fit their dtype, keeps its place in the shard without latents; the manifest has
    the reason (`Manifest.refused`).

    Args:
        partition: for example `train-0003`.
        settings: encoder and dtype.
        encoders: loads the encoder, once per device; called only if something has to be encoded.
        audio: the folder of audio shards.
        storage: the folder of this set of latents.
        options: batch size and threads.
        progress: called with a number of samples each time this many are done.
        columns: the folder of the set of columns that has the texts; None if the JSON of the samples has them, and for
            latents of audio.
        shared: the audio as other sets of the partition read it at the same time; None for this set alone.

    Raises:
        BuildError: the audio shards, or the columns of them, do not exist, the loaded encoder is not that of the
            settings, or see `bring_up_to_date`.
        SampleError: a sample cannot be decoded.
        IntegrityError: an audio shard is damaged.
    """
    source = _audio_manifest(audio, partition)
    texts = None if columns is None else _columns_manifest(columns, source)
    run = EncodingRun(
        audio,
        storage,
        settings.dtype,
        settings.audio_field,
        options or EncodingOptions(),
        progress,
        column=settings.column,
        columns=columns,
        shared=shared,
    )
    recipe = _LatentRecipe(source, texts, settings, encoders, run)
    built = bring_up_to_date(recipe, storage, published_index, progress)
    return replace(built, stats=recipe.stats)


@dataclass(slots=True)
class _LatentRecipe:
    """Plans and writes the latent shards of one partition; a `ShardRecipe`.

    Attributes:
        source: the audio manifest that the latents are made from.
        texts: the manifest of the columns that have their texts; None if the JSON has them, and for latents of audio.
        settings: which encoder, and how its latents are stored.
        encoders: loads the encoder, once per device.
        run: the folders, the speed and the progress of the encoding.
        stats: figures of the last encoding.
    """

    source: NumberedManifest
    texts: NumberedManifest | None
    settings: LatentSettings
    encoders: Callable[[], Sequence[Encoder]]
    run: EncodingRun
    stats: EncodingStats = field(default_factory=EncodingStats)
    _replaced: list[str] = field(default_factory=list)  # shards of the last manifest that are not in the plan

    @property
    def target(self) -> PartitionTarget:
        """See `ShardRecipe`."""
        source = self.source.digest if self.texts is None else self.texts.manifest.source
        return PartitionTarget(self.source.manifest.partition, self.settings.wanted(source), source, {}, LATENT_PREFIX)

    def plan(self, previous: NumberedManifest | None) -> list[LatentPlan]:
        """See `ShardRecipe`: one latent shard for each audio shard that has samples."""
        manifest = self.source.manifest
        split, bucket = split_of(manifest.partition), bucket_of(manifest.partition)
        texts = () if self.texts is None else self.texts.manifest.shards
        columns = {sequence_of(shard.name): shard.name for shard in texts}
        plans = [
            LatentPlan(
                audio_shard=shard.name,
                seconds=shard.seconds,
                place=ShardPlace(split, bucket, sequence_of(shard.name), LATENT_PREFIX),
                input_digest=self.settings.input_digest(shard.name, columns.get(sequence_of(shard.name), "")),
                columns=columns.get(sequence_of(shard.name), ""),
            )
            for shard in manifest.shards
            if shard.num_samples
        ]
        wanted = {plan.input_digest for plan in plans}
        shards = previous.manifest.shards if previous is not None else ()
        self._replaced = [shard.name for shard in shards if shard.input_digest not in wanted]
        return plans

    def planned_keys(self, plans: Sequence[LatentPlan]) -> bytes:  # noqa: ARG002
        """See `ShardRecipe`: none, because the audio shards decide which samples share a shard."""
        return b""

    def write(self, plans: Sequence[LatentPlan]) -> dict[str, ShardIndex]:
        """See `ShardRecipe`. Latents of unchanged audio, or of equal texts, are copied from the previous shards."""
        from headrace.encoding.shards import encode_shards  # noqa: PLC0415 - only here torch is imported
        from headrace.encoding.text_shards import encode_text_shards  # noqa: PLC0415

        encoders, encode = _checked(self.encoders(), self.settings), encode_shards
        if self.settings.column:
            encode = encode_text_shards
        indexes, self.stats = encode(plans, encoders, replace(self.run, held=self._held()))
        return indexes

    def _held(self) -> dict[str, str]:
        """Key → name of the latent shard that has it, for the shards that this build replaces."""
        held: dict[str, str] = {}
        for name in self._replaced:
            with contextlib.suppress(HeadraceError):  # missing or damaged: its samples are encoded again
                held |= dict.fromkeys(read_index(self.run.storage, name).keys(), name)
        return held

    def entry(self, plan: LatentPlan, index: ShardIndex) -> ShardEntry:
        """See `ShardRecipe`."""
        return ShardEntry(
            name=index.shard,
            num_bytes=index.num_bytes,
            num_samples=len(index),
            num_frames=int(index.lengths.sum()),
            seconds=index.number(SECONDS_NOTE),
            input_digest=plan.input_digest,
            num_planned=len(index),
        )

    def rejected(self, indexes: Sequence[ShardIndex]) -> tuple[ManifestRejection, ...]:
        """See `ShardRecipe`: the samples without latents, in the order of the shards."""
        return tuple(refusal for index in indexes for refusal in rejections_of(index))

    def labels(self, indexes: Sequence[ShardIndex]) -> dict[str, tuple[str, ...]]:  # noqa: ARG002
        """See `ShardRecipe`: none, which columns alone have."""
        return {}

    def made(self, indexes: Sequence[ShardIndex]) -> tuple[MadeShards, ...]:
        """See `ShardRecipe`: what the indexes say."""
        return made_shards(indexes)

    def lengths(self, indexes: Sequence[ShardIndex]) -> StoredCensus | None:
        """See `ShardRecipe`."""
        return census_of(indexes)


def _audio_manifest(audio: Storage, partition: str) -> NumberedManifest:
    """The audio manifest of a partition that latents are made from: the newest one."""
    newest = newest_manifest(audio, partition)
    if newest is None:
        raise BuildError(f"{partition}: no audio shards in {audio.uri}; build the audio shards of this partition first")
    return newest


def _columns_manifest(columns: Storage, audio: NumberedManifest) -> NumberedManifest:
    """The manifest of columns that belong to an audio manifest."""
    newest = newest_manifest(columns, audio.manifest.partition)
    if newest is None or source_parts(newest.manifest.source)[0] != audio.digest:
        raise BuildError(
            f"{audio.manifest.partition}: no columns of the newest audio shards in {columns.uri}; build the columns of "
            "this partition first"
        )
    return newest


def _checked(encoders: Sequence[Encoder], settings: LatentSettings) -> Sequence[Encoder]:
    for encoder in encoders:
        if encoder.fingerprint != settings.encoder:
            raise BuildError(
                f"the loaded encoder has the fingerprint {encoder.fingerprint[:12]}, expected "
                f"{settings.encoder[:12]}; its weights changed since the build began: build again"
            )
    if not encoders:
        raise BuildError("no encoder was loaded: name at least one device, for example cpu")
    return encoders
