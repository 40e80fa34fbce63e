"""The asset keys of a data set."""

from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg

from headrace.assemble.stages import AUDIO, Stage, StageKind

_SHARDS = {
    StageKind.AUDIO: "audio_shards",
    StageKind.COLUMNS: "{}_columns",
    StageKind.LATENTS: "{}_latent_shards",
}
_INDEXES = {
    StageKind.AUDIO: "sizes_index",
    StageKind.COLUMNS: "{}_columns_index",
    StageKind.LATENTS: "{}_sizes_index",
}


@dataclass(frozen=True, slots=True)
class DatasetKeys:
    """Asset keys of a data set below a prefix; their last parts differ, because a graph shows only the last one."""

    prefix: tuple[str, ...]

    def all(
        self, columns: Iterable[str], latents: Iterable[str], views: Iterable[str] = (), fitted: Iterable[str] = ()
    ) -> list[dg.AssetKey]:
        """All assets of a data set with these sets of columns, latents and views; `fitted` are latents of centroids."""
        joined = [key for name in columns for key in (self.columns(name), self.columns_index(name))]
        made = [key for name in latents for key in (self.latent_shards(name), self.latents_index(name))]
        first = [self.catalog, self.recordings, self.audio_shards, self.sizes_index]
        return [
            *first,
            *joined,
            *map(self.centroids, fitted),
            *made,
            *map(self.view, views),
            self.loader_smoke_test,
            self.dataset_report,
        ]

    def has(self, key: dg.AssetKey) -> bool:
        """Whether a key is below the prefix."""
        return tuple(key.path[: len(self.prefix)]) == self.prefix

    def short(self, key: dg.AssetKey) -> str:
        """A key without the prefix."""
        return "/".join(key.path[len(self.prefix) :] if self.has(key) else key.path)

    def _key(self, name: str) -> dg.AssetKey:
        return dg.AssetKey([*self.prefix, name])

    @property
    def catalog(self) -> dg.AssetKey:
        """The scan of the whole source."""
        return self._key("catalog")

    @property
    def recordings(self) -> dg.AssetKey:
        """The recordings of each partition, according to the catalog."""
        return self._key("recordings")

    @property
    def audio_shards(self) -> dg.AssetKey:
        """Tar shards with FLAC and JSON, partitioned."""
        return self.shards(AUDIO)

    @property
    def sizes_index(self) -> dg.AssetKey:
        """The committed snapshot of the audio shards."""
        return self.index(AUDIO)

    def columns(self, name: str) -> dg.AssetKey:
        """Columns of one set beside the audio shards, partitioned."""
        return self.shards(Stage(StageKind.COLUMNS, name))

    def columns_index(self, name: str) -> dg.AssetKey:
        """The committed snapshot of one set of columns."""
        return self.index(Stage(StageKind.COLUMNS, name))

    def latent_shards(self, latents: str) -> dg.AssetKey:
        """Tar shards with the latents of one encoder, partitioned."""
        return self.shards(Stage(StageKind.LATENTS, latents))

    def latents_index(self, latents: str) -> dg.AssetKey:
        """The committed snapshot of one set of latents."""
        return self.index(Stage(StageKind.LATENTS, latents))

    def centroids(self, latents: str) -> dg.AssetKey:
        """The centroids that one set of latents is made with, fitted once."""
        return self._key(f"{latents}_centroids")

    def shards(self, stage: Stage) -> dg.AssetKey:
        """The partitioned asset that makes the shards of a stage."""
        return self._key(_SHARDS[stage.kind].format(stage.name))

    def index(self, stage: Stage) -> dg.AssetKey:
        """The asset that commits the snapshot of a stage."""
        return self._key(_INDEXES[stage.kind].format(stage.name))

    def view(self, name: str) -> dg.AssetKey:
        """The committed snapshot of one view."""
        return self._key(f"{name}_view")

    @property
    def loader_smoke_test(self) -> dg.AssetKey:
        """The test that training loaders can read the newest snapshots."""
        return self._key("loader_smoke_test")

    @property
    def dataset_report(self) -> dg.AssetKey:
        """The HTML page about the data set."""
        return self._key("dataset_report")
