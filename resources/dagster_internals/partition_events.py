"""The events of one partition in a run of several: its materialization with its own data version, and its checks.

Uses: the metadata key `SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION`, with which Dagster records nothing for an output;
the names of the tags of data versions; `AssetCheckEvaluationTargetMaterializationData`.
Why: for the output of a step, Dagster records a materialization of every partition of the run, with one data version
for all. An asset that gives no output would keep later steps of the same run from running.
Missing: a `MaterializeResult` or an `AssetCheckResult` of one partition of several.
Fails first: tests/assets/test_partition_runs.py.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (  # noqa: TID251 - see above
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.data_version import (  # noqa: TID251 - see above
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.definitions.source_asset import (  # noqa: TID251 - see above
    SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION,
)

from headrace_dagster.resources.dagster_internals.event_log import DATA_VERSION_TAG, partition_versions


def recorded_output() -> dg.MaterializeResult[None]:
    """The output of an asset whose partitions were recorded before. Later steps of the run follow it."""
    return dg.MaterializeResult(metadata={SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True})


@dataclass(frozen=True, slots=True)
class PartitionRecorder:
    """Makes the events of single partitions of an asset, as Dagster makes them in a run of one partition.

    Attributes:
        instance: the Dagster instance.
        key: the asset.
        code_version: of the asset.
        inputs: the assets from which a partition is made: the newest storage id, and the data versions by partition;
            of an unpartitioned asset, its one version is that of `None`.
    """

    instance: dg.DagsterInstance
    key: dg.AssetKey
    code_version: str
    inputs: dict[dg.AssetKey, tuple[str, dict[str | None, str]]]

    @classmethod
    def of_step(cls, context: dg.AssetExecutionContext, key: dg.AssetKey) -> "PartitionRecorder":
        """A recorder for the asset of a step that has just begun."""
        definition, instance = context.assets_def, context.instance
        inputs: dict[dg.AssetKey, tuple[str, dict[str | None, str]]] = {}
        for upstream in sorted(definition.asset_deps[key]):
            newest = instance.fetch_materializations(upstream, limit=1).records
            pointer = str(newest[0].storage_id) if newest else NULL_EVENT_POINTER
            by_partition = partition_versions(instance, upstream, dg.DagsterEventType.ASSET_MATERIALIZATION)
            versions: dict[str | None, str] = dict[str | None, str](by_partition.items())
            if newest and newest[0].partition_key is None:
                versions[None] = _version_of(newest[0])
            inputs[upstream] = (pointer, versions)
        return cls(instance, key, (definition.code_versions_by_key[key] or context.run.run_id), inputs)

    def materialization(self, partition: str, made: dg.MaterializeResult[None]) -> dg.AssetMaterialization:
        """The materialization of one partition, with its data version and those of what it was made from."""
        tags = dict(made.tags or {})
        if made.data_version is not None:
            tags |= {DATA_VERSION_TAG: made.data_version.value, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
        tags[CODE_VERSION_TAG] = self.code_version
        for upstream, (pointer, versions) in self.inputs.items():
            # Dagster hashes the data versions of all partitions that an input has; here there is one. It takes the
            # version of an unpartitioned input as it is.
            digest = versions.get(None) or hashlib.sha256(versions.get(partition, "").encode()).hexdigest()
            tags |= {get_input_data_version_tag(upstream): digest, get_input_event_pointer_tag(upstream): pointer}
        return dg.AssetMaterialization(self.key, partition=partition, metadata=dict(made.metadata or {}), tags=tags)


def _version_of(record: dg.EventLogRecord) -> str:
    """The data version of a materialization; empty without one."""
    made = record.asset_materialization
    return (made.tags or {}).get(DATA_VERSION_TAG, "") if made else ""


def evaluations(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, results: Iterable[dg.AssetCheckResult]
) -> Iterator[dg.AssetCheckEvaluation]:
    """The results of blocking checks of one partition, for the newest materialization of that partition."""
    of_partition = dg.AssetRecordsFilter(key, asset_partitions=[partition])
    newest = instance.fetch_materializations(of_partition, limit=1).records
    targets = [
        AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
        for record in newest
    ]
    for result in results:
        yield dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=str(result.check_name),
            passed=result.passed,
            metadata=result.metadata,
            severity=result.severity,
            description=result.description,
            target_materialization_data=targets[0] if targets else None,
            blocking=True,
            partition=partition,
        )
