"""Committing what all partitions hold as the next snapshot, when and only when it is the whole truth.

Owns that decision and the repeated attempt after a lost race; the formats are `headrace.snapshots`' business.
"""

from collections.abc import Mapping

from headrace.errors import AlreadyExistsError, BuildError
from headrace.latents import LatentSettings, commit_latent_snapshot
from headrace.manifests import NumberedManifest, newest_manifests
from headrace.reconcile import plan_build
from headrace.snapshots import NumberedSnapshot, commit_snapshot
from headrace.storage import Storage

_ATTEMPTS = 5
_SHOWN = 5


def commit_partitions(
    storage: Storage, wanted: Mapping[str, str], catalog: str, origin: Mapping[str, object] | None = None
) -> tuple[NumberedSnapshot, bool, dict[str, NumberedManifest]]:
    """Commit the snapshot of a shard folder.

    Args:
        storage: the shard folder.
        wanted: every partition of the layout and the digest that its manifest must carry. Partitions that left the
            layout are not in it, and so not in the snapshot.
        catalog: digest of the catalog that `wanted` was computed from.
        origin: for latents, what they were computed from.

    Returns:
        The newest snapshot, whether it is new, and the manifests that it is made of.

    Raises:
        BuildError: partitions are missing or were built from something else, every recording is refused, or other
            writers kept winning.
    """
    for _ in range(_ATTEMPTS):
        plan = plan_build(wanted, newest_manifests(storage))
        if plan.stale:
            named = ", ".join(f"{name} ({need})" for name, need in list(plan.stale.items())[:_SHOWN])
            more = f" and {len(plan.stale) - _SHOWN} more" if len(plan.stale) > _SHOWN else ""
            raise BuildError(
                f"{storage.uri}: {len(plan.stale)} of {len(wanted)} partitions are not built from the current catalog "
                f"and settings: {named}{more}; materialize them (build.py does), then this again"
            )
        _check_some_samples(storage, plan.current)
        try:
            numbered, is_new = commit_snapshot(storage, plan.current, catalog, origin or {})
        except AlreadyExistsError:
            continue
        return numbered, is_new, plan.current
    raise BuildError(f"{storage.uri}: other writers kept committing snapshots; stop them and build again")


def commit_latents(audio: Storage, storage: Storage, settings: LatentSettings) -> tuple[NumberedSnapshot, bool]:
    """Commit the snapshot of latents that belongs to the newest audio snapshot.

    Returns:
        The newest snapshot of latents, and whether it is new.

    Raises:
        BuildError: partitions are missing or were encoded from something else, or other writers kept winning.
        NotFoundError: there is no audio snapshot yet.
    """
    for _ in range(_ATTEMPTS):
        try:
            return commit_latent_snapshot(audio, storage, settings)
        except AlreadyExistsError:
            continue
    raise BuildError(f"{storage.uri}: other writers kept committing snapshots; stop them and build again")


def _check_some_samples(storage: Storage, manifests: Mapping[str, NumberedManifest]) -> None:
    """Where all recordings are refused, readers keep what they have."""
    refused = [refusal for numbered in manifests.values() for refusal in numbered.manifest.refused]
    if not refused or any(numbered.manifest.num_samples for numbered in manifests.values()):
        return
    shown = "; ".join(f"{refusal.path}: {refusal.reason}" for refusal in refused[:_SHOWN])
    more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
    raise BuildError(
        f"{storage.uri}: not one recording gives a sample, so there is nothing to commit; {len(refused)} refused: "
        f"{shown}{more}"
    )
