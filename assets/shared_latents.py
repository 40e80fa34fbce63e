"""Makes several sets of latents in one step of a run, because their audio is then read once.

Each set stays an asset with a step, checks and retries of its own. The first step of a run makes its partition of all
sets of the run; the later steps take what it made, or the error that their set had, and record it. That works when the
steps run in one process, as those of this project do. In another process, a later step finds its shards made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from headrace.assemble.centroids import with_centroids
from headrace.assemble.latents import LatentSettings
from headrace.assemble.latents_together import BuiltOrError
from headrace.assemble.reconcile import latent_settings
from headrace.config.content import LatentsConfig
from headrace.errors import HeadraceError
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource


@dataclass(slots=True)
class SharedLatents:
    """Results of the present run for the sets of a data set.

    Attributes:
        dataset: the data set.
    """

    dataset: ProjectDataset
    _run_id: str = ""
    _made: dict[tuple[str, str], tuple[LatentSettings, BuiltOrError]] = field(default_factory=dict)

    def beside(
        self, context: dg.AssetExecutionContext, latents: LatentsConfig, storage: StorageResource
    ) -> list[LatentsConfig]:
        """The other sets of audio that the run makes, with their centroids; without those that cannot be loaded."""
        keys, found = self.dataset.keys, []
        selected = context.run.asset_selection
        if latents.column:
            return []
        for other in self.dataset.config.latents:
            is_selected = selected is None or keys.latent_shards(other.name) in selected
            if other.name == latents.name or other.column or not is_selected:
                continue
            try:
                made = with_centroids(other, storage.latents(self.dataset.config, other.name))
                latent_settings(made)
            except HeadraceError:  # its own step says why
                continue
            found.append(made)
        return found

    def put(self, run_id: str, partition: str, sets: Sequence[LatentsConfig], made: Mapping[str, BuiltOrError]) -> None:
        """Keep what a step has made of these sets."""
        if run_id != self._run_id:
            self._run_id, self._made = run_id, {}
        for one in sets:
            self._made[one.name, partition] = latent_settings(one), made[one.name]

    def take(self, run_id: str, partition: str, latents: LatentsConfig) -> BuiltOrError | None:
        """Result of an earlier step of the run for a set with these settings, once; None if no step made it."""
        if run_id != self._run_id:
            return None
        settings, made = self._made.pop((latents.name, partition), (None, None))
        return made if settings == latent_settings(latents) else None
