"""Keeps the findings of checks that read a whole catalog, so that a catalog that was checked is not read again.

The findings of each check are a small file of the output. Deleting it costs one more check. What is checked, and what a
finding means, is decided by the caller.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.stored.unchanged import code_digest
from headrace.config.dataset import DatasetConfig
from headrace.errors import FormatError, NotFoundError
from headrace.format.typed_json import typed
from headrace.format.versioned_json import versioned_bytes, versioned_json
from headrace.stores.storage import Storage

FINDINGS_FOLDER = "catalog/findings/"
_VERSION = "headrace_findings"
_MOST = 1000
"""Findings of which a file is written; with more, the next check reads the catalog again."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a check.

    Attributes:
        inputs: digest of the catalog, the settings and the code.
        lines: a line for each finding.
    """

    inputs: str
    lines: tuple[str, ...]


def findings_of(
    catalog: StoredCatalog, config: DatasetConfig, name: str, find: Callable[[], Sequence[str]]
) -> list[str]:
    """The result of `find`, or that of an earlier call for the same catalog, settings and code.

    Args:
        catalog: the catalog that `find` reads.
        config: the settings of the data set.
        name: name of the check, and of its file.
        find: reads the catalog; depends on the arguments above alone.
    """
    said = [catalog.header.content, config.model_dump_json(), code_digest()]
    inputs = hashlib.sha256("\0".join(said).encode()).hexdigest()
    path = f"{FINDINGS_FOLDER}{name}.json"
    known = _stored(catalog.output, path)
    if known is not None and known.inputs == inputs:
        return list(known.lines)
    found = Findings(inputs, tuple(find()))
    if len(found.lines) <= _MOST:
        catalog.output.write(path, versioned_bytes(_VERSION, asdict(found)))
    return list(found.lines)


def _stored(output: Storage, path: str) -> Findings | None:
    try:
        return typed(Findings, versioned_json(output.read(path), path, _VERSION))
    except (NotFoundError, FormatError, ValueError):  # a damaged file is written again
        return None
