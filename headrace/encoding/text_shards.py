"""Encodes a text column of audio shards and writes the latent shards of a partition; the audio is not read.

Each distinct text of a partition is encoded once: samples with equal texts share the result, and texts that an earlier
shard has are read from it. Neighbouring shards are encoded as a group, so that their texts can be sorted by length.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import torch

from headrace.encoders.protocol import Encoder, is_of_texts
from headrace.encoding.alone import AloneCheck
from headrace.encoding.engine import Engine
from headrace.encoding.known_texts import KnownTexts
from headrace.encoding.made import Made
from headrace.encoding.plans import EncodingOptions, EncodingRun, LatentDtype, LatentPlan, NoLatents
from headrace.encoding.publishing import MadeShard, publish_shard, saved, stored_outputs
from headrace.encoding.reading import EncodingJob
from headrace.encoding.stats import EncodingStats
from headrace.encoding.texts import TEXTS, TextItem, TextShard, digest_of, read_texts
from headrace.encoding.windows import ClipWindow
from headrace.errors import BuildError
from headrace.format.indexes.index import ShardIndex
from headrace.format.manifests.made_by import MadeBy, as_note
from headrace.format.tensors.outputs import Output
from headrace.format.tensors.tensors import storage_dtype

_GROUP_BYTES = 128 << 20  # of latents in a group, by the letters of its texts; a single shard may have more

Group = list[tuple[LatentPlan, TextShard]]


def encode_text_shards(
    plans: Sequence[LatentPlan], encoders: Sequence[Encoder], route: EncodingRun
) -> tuple[dict[str, ShardIndex], EncodingStats]:
    """Encode the texts of `route.column` and write latent shards. Returns their indexes by input digest, and figures.

    Args:
        plans: the latent shards to write, in order.
        encoders: the same `TextEncoder` on each device.
        route: the folders, column, dtype and options.

    Raises:
        BuildError: the encoder is not one of texts, or fails; or see `read_texts`.
        FormatError, IntegrityError: see `read_texts`.
    """
    return TextEncoding(Engine(encoders, route.dtype, route.options), route).run(plans)


def encoded_texts(encoder: Encoder, dtype: LatentDtype, texts: Sequence[str], shard: str, key: str) -> Made:
    """The latents of the texts of one sample, each encoded alone. Raises as `encode_text_shards`."""
    engine = Engine([encoder], dtype, EncodingOptions())
    found: dict[str, Made] = {}
    for text in texts:
        found |= encoded_once(engine, {digest_of(text): (text, shard, key)}, AloneCheck(encoder, dtype), 0)
    return joined([found[digest_of(text)] for text in texts], stored_outputs(encoder, dtype), f"{shard}: {key}")


@dataclass(slots=True)
class TextEncoding:
    """Encodes and writes the planned shards of one partition.

    Attributes:
        engine: runs the encoders.
        route: the folders, column, dtype and options.
    """

    engine: Engine
    route: EncodingRun
    _published: dict[str, ShardIndex] = field(default_factory=dict)
    _outputs: tuple[Output, ...] = field(init=False)
    _known: KnownTexts = field(init=False)
    _alone: AloneCheck = field(init=False)
    _num_groups: int = 0
    _num_kept: int = 0
    _num_texts: int = 0

    def __post_init__(self) -> None:
        """Find the texts that earlier shards have."""
        encoder, route = self.engine.encoders[0], self.route
        self._outputs = stored_outputs(encoder, route.dtype)
        self._alone = AloneCheck(encoder, route.dtype)
        self._known = KnownTexts(route.storage, encoder.fingerprint, route.dtype, self._outputs)
        for name in sorted(set(route.held.values())):
            self._known.look_into(name)

    def run(self, plans: Sequence[LatentPlan]) -> tuple[dict[str, ShardIndex], EncodingStats]:
        """Write the shards. Returns their indexes by input digest, and figures."""
        for group in self._groups(plans):
            kept, made = self._encoded(group)
            for plan, shard in group:
                self._publish(plan, shard, kept | made, self._makers(shard, kept))
        stats = self.engine.meter.stats(0.0, self.engine.devices)
        figures = replace(stats, num_kept=self._num_kept, num_texts=self._num_texts, alone=self._alone.comparison)
        return self._published, figures

    def _groups(self, plans: Sequence[LatentPlan]) -> Iterator[Group]:
        """Neighbouring shards whose latents are about 128 MiB, with their texts."""
        group: Group = []
        num_bytes = 0
        for plan in plans:
            shard = read_texts(self.route, plan)
            size = self._num_bytes(shard)
            if group and num_bytes + size > _GROUP_BYTES:
                yield group
                group, num_bytes = [], 0
            group.append((plan, shard))
            num_bytes += size
        if group:
            yield group

    def _num_bytes(self, shard: TextShard) -> int:
        """The most bytes that the latents of a shard take: hidden states have at most a token for each letter."""
        texts = [text for found in shard.texts if found for text in found]
        rows = sum(len(text) + 1 for text in texts) if self._outputs[0].has_time else len(texts)
        return rows * self.engine.encoders[0].latent_dim * storage_dtype(self._outputs[0].dtype).itemsize

    def _encoded(self, group: Group) -> tuple[dict[str, Made], dict[str, Made]]:
        """The latents of the texts of a group, by their digests: those that exist, and those that are encoded."""
        texts = {
            digest_of(text): (text, plan.audio_shard, key)
            for plan, shard in reversed(group)
            for key, found in zip(shard.keys, shard.texts, strict=True)
            for text in found or ()
        }
        kept = self._known.of(texts)
        there = (found for _, shard in group for found in shard.texts if found)
        self._num_kept += sum(all(digest_of(text) in kept for text in found) for found in there)
        lacking = {digest: text for digest, text in texts.items() if digest not in kept}
        self._num_texts += len(lacking)
        self._num_groups += 1
        return kept, encoded_once(self.engine, lacking, self._alone, self._num_groups)

    def _makers(self, shard: TextShard, kept: Collection[str]) -> set[MadeBy]:
        """Devices and software of the latents of a shard's texts."""
        digests = {digest_of(text) for found in shard.texts for text in found or ()}
        here = {self.engine.made_by} if digests.difference(kept) else set()
        return self._known.makers(digests.intersection(kept)) | here

    def _publish(self, plan: LatentPlan, shard: TextShard, made: Mapping[str, Made], makers: set[MadeBy]) -> None:
        digests = [[digest_of(text) for text in found or ()] for found in shard.texts]
        latents = [
            joined([made[one] for one in found], self._outputs, f"{plan.audio_shard}: sample {key!r}")
            if found
            else NoLatents.no_text(self.route.column)
            for key, found in zip(shard.keys, digests, strict=True)
        ]
        samples = [saved(self._outputs, one) for one in latents]
        facts = [{TEXTS: found} for found in digests]
        content = MadeShard(plan, plan.seconds, shard.keys, shard.jsons, samples, as_note(makers), facts)
        index = publish_shard(self.route, self.engine.encoders[0], self._outputs, content)
        self._published[plan.input_digest] = index
        self._known.add(index, digests)
        self.route.progress(len(shard.keys))


def encoded_once(
    engine: Engine, texts: Mapping[str, tuple[str, str, str]], alone: AloneCheck, number: int
) -> dict[str, Made]:
    """The latents of distinct texts, by their digests.

    Args:
        engine: runs the encoders.
        texts: digest → text, and audio shard and key of a sample that has it.
        alone: checks that a text's latents do not depend on its batch.
        number: number of the group.
    """
    encoder = engine.encoders[0]
    if not is_of_texts(encoder):
        raise BuildError(f"{type(encoder).__name__} encodes audio, not texts; leave `column` out")
    ids = encoder.token_ids([text for text, _, _ in texts.values()])
    places = zip(texts.items(), ids, strict=True)
    items = {digest: TextItem(shard, key, found) for (digest, (_, shard, key)), found in places if len(found)}
    windows = [(ClipWindow(0, len(item.ids)),) for item in items.values()]
    batches = engine.batches(windows)
    jobs = alone.with_one_alone([EncodingJob(number, tuple(items.values()), batch) for batch in batches])
    made: dict[str, Made] = dict.fromkeys(texts, NoLatents.no_tokens())
    digests = list(items)
    if not digests:
        return made
    with closing(engine.run(jobs)) as results:
        for encoded in results:
            for passed in alone.passed(encoded):
                made |= {digests[piece.clip]: latents for piece, latents in passed.rows}
    return made


def joined(parts: Sequence[Made], outputs: Sequence[Output], place: str) -> Made:
    """The latents of a sample from those of its texts: the vectors below each other, (K, D).

    Raises:
        BuildError: there are several texts, and the output is no vector; the message begins with `place`.
    """
    found: list[tuple[torch.Tensor, ...]] = []
    for part in parts:
        if isinstance(part, NoLatents):
            return part
        found.append(part)
    if len(found) > 1 and not outputs[0].is_choice:
        raise BuildError(
            f"{place}: has {len(found)} texts, and output: hidden takes one; choose output: vector, or a column that "
            "holds one text"
        )
    return tuple(torch.cat(rows) for rows in zip(*found, strict=True))
