"""The asset check that lists samples without latents. It warns, and fails if there are too many to commit."""

import dagster as dg

from headrace.assemble.latent_rejections import LatentRejections
from headrace.config.content import LatentsConfig
from headrace.format.rejects import counted
from headrace_dagster.assets.metadata import codes_table, refused_table

_SHOWN = 5


def rejected_check(latents: LatentsConfig, index: dg.AssetKey) -> dg.AssetCheckSpec:
    """The check, which belongs to the asset that commits the snapshot."""
    return dg.AssetCheckSpec(
        f"{latents.name}_rejected",
        asset=index,
        description="Every sample has latents. Warns of samples whose latents are not finite or do not fit the dtype. "
        f"With a share of more than max_rejected ({latents.max_rejected:g}), no snapshot is committed.",
    )


def rejected_verdict(latents: LatentsConfig, index: dg.AssetKey, found: LatentRejections) -> dg.AssetCheckResult:
    """The result of the check. Its severity is ERROR where no snapshot may be committed, otherwise WARN."""
    reasons = counted(refusal.code for refusal in found.refused)
    tables = {"rejected_table": refused_table(found.refused), "rejected_codes_table": codes_table(reasons)}
    return dg.AssetCheckResult(
        check_name=rejected_check(latents, index).name,
        asset_key=index,
        passed=not found.refused,
        severity=dg.AssetCheckSeverity.ERROR if is_too_much(latents, found) else dg.AssetCheckSeverity.WARN,
        description=_described(latents, found) if found.refused else None,
        metadata={
            **(tables if found.refused else {}),
            "samples": found.num_samples,
            "rejected": len(found.refused),
            "rejected_share": round(found.share, 6),
            "most_rejected_share": latents.max_rejected,
        },
    )


def is_too_much(latents: LatentsConfig, found: LatentRejections) -> bool:
    """Whether more samples are without latents than the YAML allows."""
    return found.share > latents.max_rejected


def too_many_rejected(latents: LatentsConfig, found: LatentRejections) -> dg.Failure:
    """The failure of the asset, after the result of its check is recorded."""
    return dg.Failure(
        f"{_described(latents, found)}. Readers keep the previous snapshot. Correct the encoder or its dtype, list "
        f"these keys under exclude, or raise max_rejected of the latents {latents.name!r}",
        allow_retries=False,
    )


def _described(latents: LatentsConfig, found: LatentRejections) -> str:
    shown = "; ".join(f"{refusal.key} ({refusal.path}): {refusal.reason}" for refusal in found.refused[:_SHOWN])
    more = f"; and {len(found.refused) - _SHOWN} more" if len(found.refused) > _SHOWN else ""
    limit = f", more than max_rejected={latents.max_rejected:g}" if is_too_much(latents, found) else ""
    return f"{len(found.refused)} of {found.num_samples} samples have no latents{limit}: {shown}{more}"
