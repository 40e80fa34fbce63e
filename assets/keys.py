"""The asset keys of a data set, in one place."""

from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True, slots=True)
class DatasetKeys:
    """Asset keys of the data set `name`."""

    name: str

    def all(self, latents: Iterable[str]) -> list[dg.AssetKey]:
        """All assets of a data set that has these latents."""
        made = [key for name in latents for key in (self.latent_shards(name), self.latents_index(name))]
        first = [self.catalog, self.recordings, self.audio_shards, self.sizes_index]
        return [*first, *made, self.loader_smoke_test, self.dataset_report]

    def _key(self, *parts: str) -> dg.AssetKey:
        return dg.AssetKey([self.name, *parts])

    @property
    def catalog(self) -> dg.AssetKey:
        """One scan of the whole source."""
        return self._key("catalog")

    @property
    def recordings(self) -> dg.AssetKey:
        """What the catalog says of each partition."""
        return self._key("recordings")

    @property
    def audio_shards(self) -> dg.AssetKey:
        """FLAC and JSON, one partition at a time."""
        return self._key("audio_shards")

    @property
    def sizes_index(self) -> dg.AssetKey:
        """The committed snapshot."""
        return self._key("sizes_index")

    def latent_shards(self, latents: str) -> dg.AssetKey:
        """One encoder's output, one partition at a time."""
        return self._key(latents, "latent_shards")

    def latents_index(self, latents: str) -> dg.AssetKey:
        """The committed snapshot of one set of latents."""
        return self._key(latents, "sizes_index")

    @property
    def loader_smoke_test(self) -> dg.AssetKey:
        """The proof that a training loader can read it all."""
        return self._key("loader_smoke_test")

    @property
    def dataset_report(self) -> dg.AssetKey:
        """A page about the data set."""
        return self._key("dataset_report")
