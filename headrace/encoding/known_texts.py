"""Finds the latents of texts in the shards of an earlier build, and in those that a build has written."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.encoding.made import Made
from headrace.encoding.plans import DTYPE_NOTE, ENCODER_NOTE, LatentDtype
from headrace.encoding.texts import TEXTS, json_texts
from headrace.errors import HeadraceError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.made_by import MadeBy, makers_of
from headrace.format.tensors.outputs import Output
from headrace.format.tensors.pth import verified_outputs
from headrace.format.typed_json import sample_json
from headrace.stores.storage import Storage

_Place = tuple[str, int, int]
"""Name of a latent shard, row, and number of the text among those of the sample."""


@dataclass(slots=True)
class KnownTexts:
    """The texts whose latents exist, by digest.

    Attributes:
        storage: the folder of latents.
        encoder: fingerprint of the encoder; latents of another encoder are not read.
        dtype: dtype of the stored latents; latents of another dtype are not read.
        outputs: the outputs that the encoder gives.
    """

    storage: Storage
    encoder: str
    dtype: LatentDtype
    outputs: tuple[Output, ...]
    _places: dict[str, _Place] = field(default_factory=dict)

    def look_into(self, shard: str) -> None:
        """Add the texts of an earlier shard; nothing if it is missing, damaged, or of another encoder."""
        try:
            index = read_index(self.storage, shard)
            if (index.notes.get(ENCODER_NOTE), index.notes.get(DTYPE_NOTE)) != (self.encoder, self.dtype):
                return
            if index.outputs == self.outputs:
                self.add(index, [_digests(text, shard) for text in json_texts(self.storage, index)])
        except (HeadraceError, OSError):  # its texts are encoded again
            return

    def add(self, index: ShardIndex, digests: Sequence[Sequence[str]]) -> None:
        """Add the texts of the samples of a shard."""
        for row, found in enumerate(digests):
            if index.range_of(row, "pth") is not None:
                for number, digest in enumerate(found):
                    self._places.setdefault(digest, (index.shard, row, number))

    def makers(self, digests: Iterable[str]) -> set[MadeBy]:
        """Devices and software of the shards that these texts are read from, as far as they say it."""
        shards = {self._places[digest][0] for digest in digests if digest in self._places}
        return {by for shard in shards for by in makers_of(read_index(self.storage, shard))}

    def of(self, digests: Iterable[str]) -> dict[str, Made]:
        """The latents of those of the texts that are known."""
        by_shard: dict[str, dict[str, _Place]] = {}
        for digest in digests:
            if (place := self._places.get(digest)) is not None:
                by_shard.setdefault(place[0], {})[digest] = place
        return {digest: made for shard, places in by_shard.items() for digest, made in self._read(shard, places)}

    def _read(self, shard: str, places: dict[str, _Place]) -> Iterator[tuple[str, Made]]:
        try:
            index = read_index(self.storage, shard)
            spans = [span for _, row, _ in places.values() if (span := index.range_of(row, "pth")) is not None]
            blobs = self.storage.read_ranges(shard, spans)
            for (digest, (_, _, number)), blob in zip(places.items(), blobs, strict=True):
                (values,) = verified_outputs(blob, self.outputs)
                yield digest, (values[number : number + 1].clone() if self.outputs[0].is_choice else values,)
        except (HeadraceError, OSError, ValueError):  # deleted, truncated or damaged: the other texts are encoded
            for digest in places:
                self._places.pop(digest, None)


def _digests(text: bytes, shard: str) -> list[str]:
    about = sample_json(text, shard, "").get("headrace", {})
    return [str(digest) for digest in about.get(TEXTS, [])]
