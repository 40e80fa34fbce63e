"""The job NAME_verify: reads every byte of the newest snapshots again, or of a part of their shards, on the workers."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import dagster as dg

from headrace.assemble.stages import AUDIO, stages_of
from headrace.config.shares import share_of
from headrace.format.beside.views import VIEWS
from headrace.format.snapshots.snapshots import snapshot_numbers
from headrace.locate.outputs import shard_folders
from headrace.locate.shard_list import LocatedShard
from headrace.ordered import TaskThreads, map_in_order
from headrace.stores.storage import Storage
from headrace.verification.rounds import plan_rounds, verify_rounds
from headrace.verification.shard_check import CheckedShard, Depth, Fault
from headrace.verification.verify import Verdict, checked_on_threads, find_target
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.resources.workers import Workers

_SHOWN = 20
_SHARDS_PER_TASK = 64
_REPORT_SECONDS = 10.0


def verify_job(dataset: ProjectDataset) -> dg.JobDefinition:
    """The job that reads every byte of the newest snapshots and compares digests, indexes and headers.

    An interrupted run is continued by the next one. With `schedules.verify.fraction`, each run takes the next part of
    the shards. It passes before the first snapshot is committed: its schedule may tick during the first build.
    """
    config, keys = dataset.config, dataset.keys

    @dg.op(name=f"{config.name}_verify_everything")
    @readable_failures()
    def verify_everything(
        context: dg.OpExecutionContext, headrace_storage: StorageResource, headrace_workers: dg.ResourceParam[Workers]
    ) -> dg.Output[None]:
        output = headrace_storage.output(config)
        if not shard_folders(output) and context.instance.get_latest_materialization_event(keys.sizes_index) is None:
            context.log.info("nothing to verify: the first snapshot is not committed yet")
            return dg.Output(None, metadata={"shards": 0})
        target, share = find_target(output.uri), share_of(config.schedules.verify.fraction)
        target = replace(target, faults=(*target.faults, *_lost_parts(dataset, output, context.instance)))
        rounds = plan_rounds(target, None if share == 1 else share)
        report = _Report(context.log.info, sum(part.num_shards for part in rounds), time.monotonic())
        checks = partial(checked_on_workers, headrace_workers)
        verdict = verify_rounds(target, rounds, checks, time.time, report.count)
        return _result(verdict, "\n".join(f"{part.storage.uri}: {part.coverage()}" for part in rounds))

    @dg.job(
        name=f"{config.name}_verify",
        description="Read every byte of the newest snapshots and compare digests, indexes and headers.",
    )
    def job() -> None:
        verify_everything()

    return job


def _lost_parts(dataset: ProjectDataset, output: Storage, instance: dg.DagsterInstance) -> Iterator[Fault]:
    """Latents, columns and views of the YAML without a snapshot, though the instance has recorded one."""
    config, keys = dataset.config, dataset.keys
    wanted = {stage.folder: keys.index(stage) for stage in stages_of(config) if stage != AUDIO}
    wanted |= {f"{VIEWS}/{name}": keys.view(name) for name in config.views}
    for folder, key in wanted.items():
        storage = output.at(folder)
        if not snapshot_numbers(storage) and instance.get_latest_materialization_event(key) is not None:
            what = "no snapshot is there, though the YAML names it and it was built"
            yield Fault(storage.uri, f"{what}: restore it, or materialize {key.to_user_string()} again")


def checked_on_workers(workers: Workers, shards: Sequence[LocatedShard]) -> Iterator[CheckedShard]:
    """The results of reading shards on the workers, 64 shards in a task, in the order of the shards."""
    tasks = [shards[first : first + _SHARDS_PER_TASK] for first in range(0, len(shards), _SHARDS_PER_TASK)]
    if not tasks:
        return
    num_tasks = workers.at_a_time
    with TaskThreads(num_tasks, "verify-tasks") as pool:
        run = partial(_run, workers)
        for results in map_in_order(pool, run, tasks, window=2 * num_tasks):
            yield from results


def _run(workers: Workers, shards: Sequence[LocatedShard]) -> list[CheckedShard]:
    return workers.run(partial(_checked, shards), lambda _: None)


def _checked(
    shards: Sequence[LocatedShard], *, num_threads: int, progress: Callable[[int], None]
) -> list[CheckedShard]:
    """The results of one task; `progress` is called with numbers of samples, as for a build."""
    found = []
    for checked in checked_on_threads(shards, Depth(num_threads)):
        progress(checked.num_samples)
        found.append(checked)
    return found


@dataclass(slots=True)
class _Report:
    """Says every ten seconds how far the verification is."""

    say: Callable[[str], None]
    total: int
    said: float
    done: int = 0
    faults: int = 0

    def count(self, checked: CheckedShard) -> None:
        """Count a shard that was read."""
        self.done += 1
        self.faults += len(checked.faults)
        if time.monotonic() - self.said >= _REPORT_SECONDS:
            self.said = time.monotonic()
            self.say(
                f"{self.done} of {self.total} shards verified ({self.done / self.total:.0%}), {self.faults} faults"
            )


def _result(verdict: Verdict, coverage: str) -> dg.Output[None]:
    """Numbers of a verification without faults. Raises `dg.Failure` with the first faults."""
    if verdict.faults:
        listed = "\n".join(f"{fault.where}: {fault.what}" for fault in verdict.faults[:_SHOWN])
        raise dg.Failure(
            f"{len(verdict.faults)} faults in {verdict.num_shards} shards; delete the damaged shards and build "
            f"them again:\n{listed}",
            allow_retries=False,
        )
    numbers = {"shards": verdict.num_shards, "samples": verdict.num_samples, "shard_bytes": verdict.num_bytes}
    return dg.Output(None, metadata={**numbers, "verified": dg.MetadataValue.text(coverage)})
