"""The asset NAME/invalid_yaml: stands for a data set whose YAML file cannot be loaded, and shows its error."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg


def invalid_yaml_assets(invalid: Mapping[Path, str], above: Sequence[str]) -> list[dg.AssetSpec]:
    """One asset for each name of an invalid file. It cannot be materialized.

    Args:
        invalid: invalid files and their errors.
        above: parts of asset keys in front of a data set's name.
    """
    faults: dict[str, list[str]] = {}
    for path, fault in invalid.items():
        faults.setdefault(re.sub(r"\W", "_", path.stem), []).append(fault)
    return [
        dg.AssetSpec(
            [*above, name, "invalid_yaml"],
            group_name=name,
            kinds={"yaml"},
            description="\n\n".join([f"**{name} is not loaded.** Correct the file, then reload.", *map(_block, found)]),
        )
        for name, found in faults.items()
    ]


def _block(text: str) -> str:
    """Text as a block of code, in which Markdown changes nothing."""
    return f"```\n{text.replace('```', '` ` `')}\n```"
