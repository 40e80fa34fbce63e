"""Outputs of Headrace as one source: each has a name, with which the paths of its samples begin."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import Any, Protocol

from headrace.errors import ConfigError, NotFoundError
from headrace.sources.items import Item, Items, Place
from headrace.sources.listing import FileStamp
from headrace.sources.name_index import SeenNames

_ROWS = 1000


class NamedOutput(Items, Protocol):
    """The samples of an output with a name."""

    @property
    def root(self) -> str:
        """The output, an absolute path or a URL."""

    @property
    def name(self) -> str:
        """Name of the output, with which the paths of its items begin."""

    def has(self, key: str) -> bool:
        """Whether one of its samples has this key."""


@dataclass(frozen=True)
class MergedItems:
    """The samples of several outputs, or of one with a prefix.

    Attributes:
        outputs: the outputs, in order; no two have one name.
        is_prefixed: whether the name of its output is put before the key of a sample: `NAME-KEY`.
    """

    outputs: tuple[NamedOutput, ...]
    is_prefixed: bool = False

    def items(self) -> Iterator[Item]:
        """See `Items.items`."""
        for output in self.outputs:
            yield from output.items()

    def place(self, path: str, stamp: FileStamp) -> Place:
        """See `Items.place`."""
        name = path.partition("/")[0]
        for output in self.outputs:
            if output.name == name:
                return output.place(path, stamp)
        raise NotFoundError(f"{path}: there is no output {name!r}")

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`. Raises `ConfigError` if two outputs have one key."""
        seen = SeenNames()
        for output in self.outputs:
            rows = output.rows()
            while chunk := [self._named(output, row) for row in islice(rows, _ROWS)]:
                keys = [row["id"] for row in chunk]
                if key := next(compress(keys, ~seen.add(keys)), None):
                    raise self._twice(output, key)
                yield from chunk

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return [table for output in self.outputs for table in output.tables()]

    def _named(self, output: NamedOutput, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**row, "id": f"{self._before(output)}{row['id']}"}

    def _before(self, output: NamedOutput) -> str:
        return f"{output.name}-" if self.is_prefixed else ""

    def _twice(self, second: NamedOutput, key: str) -> ConfigError:
        befores = ((output, self._before(output)) for output in self.outputs)
        has = (output for output, before in befores if key.startswith(before) and output.has(key.removeprefix(before)))
        mend = "source.options: {prefix: true} puts the names of the outputs before the keys"
        if self.is_prefixed:
            mend = "rename the folder of one of the outputs"
        return ConfigError(
            f"source.uri: {next(has, second).root} and {second.root} both have a sample {key!r}; {mend}, or a view "
            "leaves one of the samples out"
        )
