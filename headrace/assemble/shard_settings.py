"""`ShardSettings`: the settings of the audio shards, and the digests by which a build knows what is up to date."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.assemble.build_reasons import BuildReason
from headrace.assemble.plan import layout_of
from headrace.audio import AudioFormat, codec_version
from headrace.config.partitioning import ShardSize
from headrace.format.manifests.manifests import Manifest

SHARD_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings that, together with the recordings, decide the bytes of a partition's shards.

    Attributes:
        audio: format of the audio in shards.
        size: size of a full shard.
        reshuffle: how often the data set was laid out from scratch.
    """

    audio: AudioFormat
    size: ShardSize
    reshuffle: int = 0

    @property
    def layout(self) -> dict[str, int]:
        """See `Manifest.layout`."""
        return layout_of(self.size, self.reshuffle)

    def reasons(self, found: Manifest, source: str) -> Mapping[BuildReason, bool]:
        """See `headrace.assemble.build_reasons.Settings`."""
        as_laid_out = replace(self, **_laid_out(found.layout))
        return {
            BuildReason.RECORDINGS: found.source != source,
            BuildReason.LAYOUT: found.layout != self.layout,
            BuildReason.SETTINGS: found.wanted != as_laid_out.wanted(found.source),
        }

    def digest(self) -> str:
        """Digest of the audio settings, the shard format and the versions of the codecs."""
        content = [SHARD_FORMAT, codec_version(self.audio.codec), self.audio.canonical()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def wanted(self, fingerprint: str) -> str:
        """Digest of everything that a partition is built from, given its fingerprint (see `Manifest.wanted`)."""
        layout = " ".join(f"{name} {value}" for name, value in self.layout.items())
        return hashlib.sha256(f"{self.digest()} {layout} {fingerprint}".encode()).hexdigest()


def _laid_out(layout: Mapping[str, int]) -> dict[str, Any]:
    """The fields of `ShardSettings` that a manifest's layout has."""
    sizes = {name: layout[name] for name in ("samples_per_shard", "bytes_per_shard") if name in layout}
    return {"reshuffle": layout.get("reshuffle", 0)} | ({"size": ShardSize(**sizes)} if len(sizes) == 1 else {})
