"""Opens the data of a run from its state: each stream where the user says it is, at the snapshots of the state.

What was delivered is computed by `delivered`, and the questions are answered by `answers`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import ConfigError, NotFoundError, StateError
from headrace.format.beside.view_files import read_view
from headrace.format.typed_json import json_value
from headrace.locate import locate
from headrace.locate.outputs import output_of, view_folders
from headrace.stores.storage import open_storage
from headrace.streaming.asked.delivered import DeliveredRows, check_known, num_batches
from headrace.streaming.opened.opening import OpenStreams, StreamDefaults
from headrace.streaming.order.epoch_order import EpochOrder, Rows
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.phases import current_phase
from headrace.streaming.order.state import OrderState, StreamState, ViewState, check_streams
from headrace.streaming.run.planner import Planner
from headrace.streaming.samples.chosen_fields import METADATA
from headrace.streaming.selection import Selection
from headrace.streaming.settings import FetchSettings, SampleSettings
from headrace.streaming.stream import Stream
from headrace.streaming.world import ALONE

_WHERE = "where "


def read_state(path: str) -> OrderState:
    """The state in a JSON file.

    Raises:
        NotFoundError: there is no such file.
        StateError: it is not JSON, not a state of Headrace, or that of one worker of a DataLoader.
    """
    try:
        found = json_value(Path(path).read_bytes())
        state = OrderState.from_json(found)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file; write json.dumps(loader.state_dict()) to a file") from error
    except (ValueError, OSError) as error:
        raise StateError(f"{path}: no state that can be read ({error})") from error
    if "worker" in found:
        raise StateError(
            f"{path}: the state of one worker of a DataLoader, which does not count what the workers delivered; "
            "save the state by dataset.state_dict(num_samples=…) in the main process"
        )
    return state


@dataclass(frozen=True, slots=True, eq=False)
class AskedBatch:
    """A global batch: its epoch, the row at which it begins, the names that its stream numbers mean, and its rows."""

    epoch: int
    start: int
    names: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class AskedRun:
    """A run at a state, with its data.

    Attributes:
        state: the state.
        streams: its streams, at its snapshots.
        columns: the same data with the sets of columns that are asked for. Tars of others, which the run may have read
            without columns, can be in another order there.
        planner: makes the batches of its epochs.
    """

    state: OrderState
    streams: OpenStreams
    columns: OpenStreams
    planner: Planner

    @classmethod
    def opened(cls, state: OrderState, remotes: Sequence[str], *, columns: Sequence[str] = ()) -> "AskedRun":
        """Open the data of a run. Of the samples only the JSON is read: audio may be damaged, latents rejected.

        Args:
            state: its state.
            remotes: where its data sets are: `NAME=PATH` for the stream of this name, or `PATH` for all others. Without
                them they are where the run read them.
            columns: sets of columns to join.

        Raises:
            ConfigError: a stream has no path, or a path names no data set or one without these columns.
            StateError: the data are not those of the state.
        """
        paths = _paths(state, remotes)
        streams = [_stream(saved, paths[saved.name]) for saved in state.streams]
        selection = Selection(fields=(METADATA,))
        names = [saved.name for saved in state.streams]

        def open_with(columns: Sequence[str]) -> OpenStreams:
            defaults = StreamDefaults(None, replace(selection, columns=tuple(columns)), FetchSettings())
            return OpenStreams(streams, names, defaults, has_own_world=True, saved=state.streams)

        opened = open_with(())
        check_streams(_without_latents(state), opened.states(), change_streams=False)
        joined = open_with(columns) if columns else opened
        spec = state.spec
        samples = SampleSettings(
            crop_frames=spec.crop_frames, crop_seconds=spec.crop_seconds, sample_rate_hz=spec.sample_rate
        )
        return cls(state, opened, joined, Planner(spec, opened, ALONE, samples))

    def epochs(self) -> Iterator[DeliveredRows]:
        """Rows that each epoch delivered up to the state.

        A state does not record the mixtures of earlier epochs: they are those with which its own epoch began.

        Raises:
            ConfigError: it cannot be computed from the order: `FrameBudget`, or buckets with a change of the mixture.
        """
        state = self.state
        check_known(state.spec, state.phases)
        sizes = {spec.name: spec.shard_sizes for spec in self._specs.values()}
        for epoch in range(state.epoch + (state.sample_in_epoch > 0)):
            is_last = epoch == state.epoch
            found = DeliveredRows(state.spec, epoch, state.phases if is_last else state.phases[:1], sizes)
            batches = None if state.spec.buckets is None else self.planner.batches(self._order(epoch, 0))
            yield found.before(state.sample_in_epoch if is_last else found.stop, batches)

    def batch_at(self, step: int) -> AskedBatch:
        """Global batch `step` of the state's epoch, counted from its beginning with the state's global batch size.

        Raises:
            ConfigError: the epoch has no such batch, or one of its streams has left the mixture.
        """
        spec, epoch, phases = self.state.spec, self.state.epoch, self.state.phases
        first, stop, number = 0, None, 0
        for number, following in enumerate(phases[1:]):
            part = current_phase(spec, epoch, phases[: number + 1])
            if step < first + (count := num_batches(spec, part, following.start)):
                stop = following.start
                break
            first += count
        else:
            number = len(phases) - 1
        if stop is not None and spec.buckets is not None:
            check_known(spec, phases)
        order = self._order(epoch, number)
        batches = self.planner.batches(order)
        if not 0 <= step - first < batches.num_batches:
            raise ConfigError(f"step {step}: epoch {epoch} has {first + batches.num_batches} global batches, from 0 on")
        start, rows = batches.batch_start(step - first), batches.batch(step - first)
        names = tuple(stream.name for stream in order.phases[-1].streams)
        return AskedBatch(epoch, start, names, rows if stop is None else rows[: stop - start])

    def _order(self, epoch: int, phase: int) -> EpochOrder:
        """The order of one of the state's phases, from its beginning."""
        phases = self.state.phases[: phase + 1]
        last = phases[-1]
        gone = [stream.name for stream in last.streams if stream.name not in self._specs]
        if gone:
            raise ConfigError(
                f"the streams {gone} have left the mixture, and the state does not say which data they had: ask a "
                "state from before the change"
            )
        mixture = Mixture(tuple(self._specs[stream.name] for stream in last.streams))
        return EpochOrder(self.state.spec, mixture, epoch, phases=phases, start=last.start)

    @property
    def _specs(self) -> Mapping[str, StreamSpec]:
        return {spec.name: spec for spec in self.streams.mixture(None).streams}


def _without_latents(state: OrderState) -> OrderState:
    """The state of a run that joins no latents, on which the order does not depend."""
    streams = (replace(stream, latents_snapshots=(), latents_fingerprints=()) for stream in state.streams)
    return replace(state, streams=tuple(streams))


def _paths(state: OrderState, remotes: Sequence[str]) -> dict[str, str]:
    """The path of each stream by its name."""
    names = [stream.name for stream in state.streams]
    named = {name: text.removeprefix(f"{name}=") for text in remotes for name in names if text.startswith(f"{name}=")}
    others = [text for text in remotes if not any(text.startswith(f"{name}=") for name in names)]
    if len(others) > 1:
        raise ConfigError(f"--remote: {', '.join(others)} name no stream: pass NAME=PATH, with one of {names}")
    saved = {stream.name: stream.remote for stream in state.streams if stream.remote is not None}
    paths = (dict.fromkeys(names, others[0]) if others else saved) | named
    lacking = [stream for stream in state.streams if stream.name not in paths]
    if lacking:
        example = "PATH" if len(names) == 1 else f"'{lacking[0].name}=PATH'"
        what = "; ".join(f"{stream.name!r}: {stream}" for stream in lacking)
        raise ConfigError(
            f"the state does not say where its data are: pass --remote {example} with the data set that the run read "
            f"({what})"
        )
    return paths


def _stream(saved: StreamState, path: str) -> Stream:
    """The stream of a state at a path."""
    found = Stream(remote=path, split=saved.split, snapshot=saved.snapshot, key_at=saved.key_at.value, name=saved.name)
    if (cut := saved.windows) is not None:
        found = replace(
            found, window_seconds=cut.seconds, window_hop_seconds=cut.hop_seconds, last_window=cut.last.value
        )
    if saved.view is None:
        return found
    if saved.view.snapshot is None:
        return replace(found, where=saved.view.definition.removeprefix(_WHERE))
    return replace(found, view=_view(saved.view, path))


def _view(saved: ViewState, path: str) -> str:
    """Name of the view of an output that has the definition and the snapshot of a state."""
    located = locate(path, looks_for_index=True)
    output = output_of(located.named, located.folder_of_samples("a view"))
    for folder in view_folders(open_storage(output)):
        if saved.snapshot in folder.numbers:
            view = read_view(folder.storage, saved.snapshot)
            if str(view.snapshot.definition) == saved.definition:
                return folder.name.rpartition("/")[2]
    raise StateError(f"{output}: no {saved} in the folder views; restore it, or name the data set of the run")
