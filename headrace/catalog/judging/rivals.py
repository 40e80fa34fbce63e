"""Finds the recordings and rows of all parts that have the same key or the same audio, and decides between them.

Parts of a catalog are judged one after the other. Of each candidate, 16 bytes are kept: hashes of its key and of its
audio. Only candidates whose hash occurs twice are then compared with each other.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from headrace.catalog.rows.schemas import CONTENT

_KEY, _CONTENT = "\0key_hash", "\0content_hash"
_CODE, _REASON, _DUPLICATE = "\0code", "\0reason", "\0duplicate_of"


@dataclass(slots=True)
class RivalFinder:
    """Collects hashes (uint64) of the candidates of all parts, in one block for each kind, which grows in place.

    Attributes:
        num_candidates: candidates so far that are not rejected.
    """

    num_candidates: int = 0
    _keys: bytearray = field(default_factory=bytearray)
    _contents: bytearray = field(default_factory=bytearray)

    def add(self, candidates: pl.DataFrame) -> None:
        """Add the candidates of a part; those that are rejected are left out."""
        hashes = candidates.filter(pl.col("code").is_null()).select(_hashes())
        self.num_candidates += hashes.height
        self._keys += hashes[_KEY].to_numpy().tobytes()
        self._contents += hashes[_CONTENT].to_numpy().tobytes()

    def found(self, parts: Callable[[], Iterable[pl.DataFrame]], columns: list[str]) -> pl.DataFrame:
        """The candidates of all parts that may have a rival, with these columns.

        Args:
            parts: reads the candidates of each part again. It is not called if there are no rivals.
            columns: names of columns.
        """
        keys, contents = _repeated(self._keys), _repeated(self._contents)
        self._keys, self._contents = bytearray(), bytearray()
        if not len(keys) and not len(contents):
            return pl.DataFrame()
        may_be = pl.col(_KEY).is_in(keys.implode()) | pl.col(_CONTENT).is_in(contents.implode())
        found = []
        for candidates in parts():
            stays = candidates.filter(pl.col("code").is_null())
            found.append(stays.filter(stays.select(_hashes()).select(may_be).to_series()).select(columns))
        return pl.concat(found)


def verdicts(decided: pl.DataFrame, name: str) -> pl.DataFrame:
    """Decisions about rivals: code, reason, and the path of the first recording with the same audio.

    Args:
        decided: rivals with `code` and `reason`, in the order of the recordings table.
        name: column that identifies a candidate.
    """
    if decided.is_empty():
        return decided
    accepted = decided.filter(pl.col("code").is_null())
    is_first = pl.struct(CONTENT).is_first_distinct()
    copies = accepted.select(name, pl.when(~is_first).then(pl.col("path").first().over(CONTENT)).alias(_DUPLICATE))
    lost = decided.filter(pl.col("code").is_not_null()).select(
        name, pl.col("code").alias(_CODE), pl.col("reason").alias(_REASON)
    )
    return pl.concat([lost, copies.filter(pl.col(_DUPLICATE).is_not_null())], how="diagonal")


def with_verdicts(candidates: pl.DataFrame, found: pl.DataFrame, name: str) -> pl.DataFrame:
    """Candidates with `duplicate_of`, and with the code and reason of `found` (`verdicts`)."""
    if found.is_empty():
        return candidates.with_columns(pl.lit(None, dtype=pl.String).alias("duplicate_of"))
    joined = candidates.join(found, on=name, how="left", maintain_order="left")
    return joined.with_columns(
        pl.coalesce("code", _CODE).alias("code"),
        pl.coalesce("reason", _REASON).alias("reason"),
        pl.col(_DUPLICATE).alias("duplicate_of"),
    ).drop(_CODE, _REASON, _DUPLICATE)


def _hashes() -> list[pl.Expr]:
    return [pl.col("key").hash().alias(_KEY), pl.struct(CONTENT).hash().alias(_CONTENT)]


def _repeated(hashes: bytearray) -> pl.Series:
    """The values that occur more than once. They are sorted in place: a set would take several times as much."""
    values = np.frombuffer(hashes, np.uint64)
    values.sort()
    return pl.Series(np.unique(values[1:][values[1:] == values[:-1]]), dtype=pl.UInt64)
