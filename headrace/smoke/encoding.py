"""The check `latents_match_audio`: encodes one sample of each partition again and compares it with the stored latents.

`headrace.verification.encoded_again` encodes and compares. Imports torch.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.encoders import Encoder
from headrace.encoding.alone import worst
from headrace.encoding.stats import Comparison
from headrace.errors import HeadraceError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.smoke.comparing import note
from headrace.stores.storage import Storage
from headrace.verification.encoded_again import EncodedAgain

Encoders = Callable[[], Sequence[Encoder]]
"""Loads an encoder, once for each device."""


@dataclass(frozen=True, slots=True)
class ReencodingCheck:
    """Encodes samples of one set of latents again and compares them.

    Attributes:
        audio: the folder of audio shards.
        latents: the folder of this set of latents.
        encoders: loads the encoder; called only if there is something to encode.
        seed: determines which samples are chosen.
        most: largest number of samples to encode, each of another partition.
        columns: the folder of the set of columns that has the texts; None if the JSON has them, or for audio.
    """

    audio: Storage
    latents: Storage
    encoders: Encoders
    seed: str
    most: int
    columns: Storage | None = None

    def faults(self, table: ShardTable, found: list[str]) -> list[Comparison]:
        """Encode one sample of each partition again. Adds differences to `found` and returns all comparisons."""
        chosen = self._chosen(table)
        if not chosen:
            return []
        again = EncodedAgain(self.audio, self.latents, self.encoders()[0], self.columns)
        compared_all = []
        for index, row in chosen:
            try:
                comparison = worst(again.compared(index, row))
            except HeadraceError as error:
                note(found, f"{index.shard}: sample {index.key(row)!r} cannot be encoded again: {error}")
                continue
            compared_all.append(comparison)
            if not comparison.is_same:
                note(
                    found,
                    f"{index.shard}: sample {index.key(row)!r}: the stored latents differ from the encoder's result "
                    f"for its audio: {comparison}; remove the tar and its .idx, and build again; if the error "
                    "comes back, the encoder is not deterministic",
                )
        return compared_all

    def _chosen(self, table: ShardTable) -> list[tuple[ShardIndex, int]]:
        """A shard and a row for each partition, or for randomly drawn partitions if there are too many."""
        partitions: dict[tuple[int, int], list[str]] = {}
        for split, bucket, name in zip(table.split.tolist(), table.bucket.tolist(), table.names(), strict=True):
            partitions.setdefault((split, bucket), []).append(name)
        shards = sorted((min(names, key=self._lot) for names in partitions.values()), key=self._lot)[: self.most]
        return [choice for name in shards if (choice := self._row(name)) is not None]

    def _row(self, shard: str) -> tuple[ShardIndex, int] | None:
        index = read_index(self.latents, shard)
        rows = [row for row in range(len(index)) if index.row(row).tensors[0] is not None]
        return (index, min(rows, key=lambda row: self._lot(index.key(row)))) if rows else None

    def _lot(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.seed}\n{name}".encode()).digest()
