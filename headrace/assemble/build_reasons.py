"""Why a partition has to be built: its newest manifest, compared with what the settings of its shards ask for."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from headrace.format.manifests.manifests import Manifest


class BuildReason(StrEnum):
    """Why a partition was built, as shown to the user; there may be several reasons."""

    NEW = "new"
    RECORDINGS = "recordings or metadata changed"
    AUDIO = "audio changed"
    LAYOUT = "shard layout changed"
    SETTINGS = "audio settings or codec changed"
    ENCODER = "encoder, dtype, audio field or column changed"
    ROWS = "rows changed"
    MISSING = "shards missing"
    UNRECORDED = "not recorded, or a check has not passed"


class Settings(Protocol):
    """Settings that, together with a source, decide the shards of a partition: those of audio, columns or latents."""

    def wanted(self, source: str, /) -> str:
        """`Manifest.wanted` of up-to-date shards, given their `Manifest.source`."""

    def reasons(self, found: Manifest, source: str) -> Mapping[BuildReason, bool]:
        """Differences between a manifest and the shards that are wanted from this source."""


def why_build(
    found: Manifest | None, source: str, settings: Settings, *, is_damaged: bool = False
) -> tuple[BuildReason, ...]:
    """Why a partition has to be built; empty if it is up to date.

    Args:
        found: the partition's newest manifest; None before the first build.
        source: the wanted `Manifest.source`: fingerprint of its recordings, or digest of its audio manifest; for
            columns, the result of `columns_source`.
        settings: settings of the audio shards, of a set of latents, or of columns.
        is_damaged: whether a shard or index of the manifest is missing or has another size.
    """
    if found is None:
        return (BuildReason.NEW,)
    reasons = {**settings.reasons(found, source), BuildReason.MISSING: is_damaged}
    return tuple(reason for reason in BuildReason if reasons.get(reason))
