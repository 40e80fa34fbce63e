"""`headrace verify --encode-again`: encodes a share of the latents again and prints how far they differ."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from headrace.cli.as_json import print_json
from headrace.cli.tables import grid, plain_console
from headrace.config.dataset import load_config
from headrace.config.folder import root_of, use_project
from headrace.errors import ConfigError
from headrace.verification.certificate import Certificate, certify, latent_sets, this_device

_SHOWN_FAULTS = 100
_ProgressBar = Callable[[str, int | None], AbstractContextManager[Callable[[], None]]]


def run_encode_again(options: argparse.Namespace, bar: _ProgressBar) -> int:
    """Run the command. Returns the exit code: 1 if a sample is beyond the bounds.

    Args:
        options: those of `verify`.
        bar: shows a progress bar, see `commands`.

    Raises:
        ConfigError: `--config` is missing, or see `certify`.
    """
    if options.config is None:
        raise ConfigError("--encode-again needs --config NAME.yaml, which says what encodes the latents")
    use_project(root_of(Path(options.config)))
    sets = latent_sets(options.path, load_config(Path(options.config)))
    device = this_device()
    with bar("encoding again", None) as advance:
        found = [certify(one, float(options.encode_again), device, lambda _: advance()) for one in sets]
    faults = [fault for one in found for fault in one.faults]
    if options.json:
        print_json({"faults": faults, "device": device, "sets": {one.name: _content(one) for one in found}})
        return 1 if faults else 0
    console = plain_console()
    columns = ("latents", "output", "samples #", "largest error #", "allowed #", "equal codes #")
    console.print(grid(f"encoded again on {device}", columns, _rows(found)))
    for one in found:
        for group, count in one.groups.items():
            console.print(f"{one.name}: {count} of the samples made by {group}", highlight=False, soft_wrap=True)
    if faults:
        rows = [(fault.where, fault.what) for fault in faults[:_SHOWN_FAULTS]]
        console.print(grid(f"{len(faults)} faults", ("where", "what is wrong"), rows))
    return 1 if faults else 0


def _content(one: Certificate) -> dict[str, object]:
    return {"num_samples": one.num_samples, "groups": one.groups, "outputs": one.outputs}


def _rows(found: list[Certificate]) -> Iterator[tuple[object, ...]]:
    for one in found:
        for name, output in one.outputs.items():
            codes = "" if output.equal_codes is None else f"{output.equal_codes:.3%}"
            yield one.name, name, one.num_samples, f"{output.largest_error:.2g}", f"{output.allowed:.2g}", codes
