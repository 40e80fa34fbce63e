"""Publishes shards on a thread of its own, in order, while the next shard is collected."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from headrace.format.indexes.index import ShardIndex
from headrace.format.shards.writer import ShardWriter


@dataclass(slots=True)
class Publisher:
    """Publishes shards one after another; a context manager, which frees what was collected.

    At most one shard waits or is being published. Publishing compares a shard with its index and writes it, which takes
    no longer than collecting it.
    """

    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "publish"))
    _published: dict[str, ShardIndex] = field(default_factory=dict)
    _under_way: tuple[str, Future[ShardIndex]] | None = None

    def __enter__(self) -> Self:
        """The publisher itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the shard that is being published."""
        self._thread.shutdown()

    def add(self, writer: ShardWriter, input_digest: str, notes: dict[str, str]) -> None:
        """Publish a shard that was collected, after the one before it. The writer is closed at the end.

        Raises:
            Exception: the shard before it could not be published. This one is dropped.
        """
        try:
            self._wait()
        except BaseException:
            writer.close()
            raise
        self._under_way = input_digest, self._thread.submit(_published, writer, input_digest, notes)

    def indexes(self) -> dict[str, ShardIndex]:
        """The indexes of all shards, by input digest. Waits for the last one, and raises its error."""
        self._wait()
        return self._published

    def _wait(self) -> None:
        if self._under_way is not None:
            digest, task = self._under_way
            self._under_way = None
            self._published[digest] = task.result()


def _published(writer: ShardWriter, input_digest: str, notes: dict[str, str]) -> ShardIndex:
    with writer:
        return writer.publish(input_digest, notes)
