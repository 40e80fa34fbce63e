"""`ShardSettings`: the settings of the audio shards, and the digests by which a build knows what is up to date."""

import hashlib
import json
from dataclasses import dataclass

from headrace.assemble.plan import layout_of
from headrace.audio import AudioFormat, codec_version
from headrace.config.partitioning import ShardSize

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

    def digest(self) -> str:
        """Digest of the audio settings, the shard format and the versions of the codecs."""
        content = [SHARD_FORMAT, codec_version(self.audio.codec), self.audio.canonical()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def wanted(self, fingerprint: str) -> str:
        """Digest of everything that a partition is built from, given its fingerprint (see `Manifest.wanted`)."""
        layout = " ".join(f"{name} {value}" for name, value in self.layout.items())
        return hashlib.sha256(f"{self.digest()} {layout} {fingerprint}".encode()).hexdigest()
