"""The command `headrace adopt` (an entry point of the group `headrace.commands`)."""

import argparse
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml

from headrace.adopt.listing import FileList, Layout, counts_said, extensions_of
from headrace.adopt.recognising import recognise
from headrace.adopt.samples import Sample, Samples, first_samples
from headrace.adopt.yaml_text import yaml_text
from headrace.cli.as_json import print_json
from headrace.cli.tables import grid, plain_console
from headrace.config.dataset import DatasetConfig, parse_config
from headrace.errors import AudioError, ConfigError
from headrace.format.tars.name_lists import absolute
from headrace.report.page import CLIP_SECONDS, html_page, player
from headrace.report.page import grid as cards

_SAMPLES = 5
_SHOWN_TEXT = 200
_DESCRIPTION = """\
Recognise the layout of the corpus at PATH, a folder or a file, and write the YAML that reads it as it is: Kaldi, NeMo,
Lhotse, Hugging Face, LJSpeech, LibriSpeech, Raven, WeNet, WebDataset, Parquet, TFRecord, tables, sidecars, folders as
labels, or an output of Headrace. Five samples are read as a build would read them, and shown with their text. What the
YAML does not use is counted. Nothing is asked, and nothing at PATH is changed. `headrace build NAME.yaml` is the next
step.

Exit codes: 0 the YAML is written; 1 nothing is recognised, or the YAML exists; 2 wrong arguments.
"""


def adopt(arguments: Sequence[str]) -> int:
    """Run `headrace adopt`. Returns the exit code.

    Raises:
        HeadraceError: nothing is recognised, the samples cannot be read, or a file exists or would be below PATH.
    """
    options = _parser().parse_args(arguments)
    path = options.path.expanduser().absolute()
    files, layout = recognise(path)
    target, page = (options.yaml or Path(f"{_name(path)}.yaml")).absolute(), options.page and options.page.absolute()
    output = absolute(options.output or str(target.parent / "shards" / target.stem))
    for file in filter(None, (target, page)):
        _check_new(file, files)
    try:
        text, config, samples = _read(layout, files, output, target)
    except ConfigError as error:
        if not {"metadata", "sidecars"} <= layout.source.keys():
            raise
        layout = layout.without_sidecars(str(error))
        text, config, samples = _read(layout, files, output, target)
    _write(target, text.encode())
    if page:
        _write(page, _page(layout, files, samples))
    content = _content(layout, files, config, samples, target)
    print_json(content) if options.json else _show(content)
    return 0


def _read(layout: Layout, files: FileList, output: str, target: Path) -> tuple[str, DatasetConfig, Samples]:
    """The YAML of a layout, what it says, and the first samples."""
    text = yaml_text(layout, files, output)
    config = parse_config(yaml.safe_load(text), target.stem, target)
    examples = layout.examples or files.audio[:_SAMPLES]
    return text, config, first_samples(config, target.parent, examples, _SAMPLES)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "headrace adopt", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=_local, metavar="PATH", help="the corpus: a folder, or a manifest, table or tar")
    parser.add_argument("--yaml", type=_local, metavar="FILE", help="the file to write (default: ./NAME.yaml)")
    parser.add_argument(
        "--output", metavar="DIR", help="output.uri, a folder or a URL (default: shards/NAME beside the YAML)"
    )
    parser.add_argument("--page", type=_local, metavar="FILE.html", help="also write a page that plays the samples")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _local(text: str) -> Path:
    """A path of this machine. Raises `ArgumentTypeError` for a URL."""
    scheme, is_url, _ = text.partition("://")
    if is_url:
        raise argparse.ArgumentTypeError(f"{scheme}://…: expected a path on this machine")
    return Path(text)


def _name(path: Path) -> str:
    """The name of a data set: a letter, then letters, digits and `_`."""
    name = re.sub(r"\W+", "_", path.name.partition(".")[0], flags=re.ASCII).strip("_")
    return name if name[:1].isalpha() else f"corpus_{name}".rstrip("_")


def _check_new(file: Path, files: FileList) -> None:
    if file.exists():
        raise ConfigError(f"{file}: the file exists, and is not replaced; remove it, or name another one")
    if files.path.is_dir() and file.resolve().is_relative_to(files.path.resolve()):
        raise ConfigError(
            f"{file}: is below {files.path}, where nothing is written; name another place with --yaml or --page"
        )


def _write(file: Path, content: bytes) -> None:
    """Write a new file. Raises `ConfigError` if it exists or cannot be written."""
    try:
        with file.open("xb") as out:
            out.write(content)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from error


def _content(
    layout: Layout, files: FileList, config: DatasetConfig, samples: Samples, target: Path
) -> Mapping[str, Any]:
    return {
        "layout": layout.name,
        "notes": layout.notes,
        "yaml": str(target),
        "source": config.source.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "output": config.output.uri,
        "num_files": len(files.names),
        "all_files_listed": files.is_whole,
        "unused": extensions_of(layout.unused(files)),
        "samples": [_facts(sample) for sample in samples.found],
        "faults": [{"path": path, "reason": reason} for path, reason in samples.faults],
    }


def _facts(sample: Sample) -> dict[str, Any]:
    return {
        "key": sample.key,
        "path": sample.path,
        "seconds": sample.seconds,
        "sample_rate_hz": sample.info.sample_rate_hz,
        "num_channels": len(sample.channels) or sample.info.num_channels,
        "text": sample.text,
        "columns": sorted(sample.metadata),
    }


def _show(content: Mapping[str, Any]) -> None:
    console = plain_console()
    console.print(f"{content['layout']}, {content['num_files']} files")
    for note in content["notes"]:
        console.print(f"  {note}")
    console.print(f"not used by the YAML: {counts_said(content['unused'])}")
    rows = [
        (one["key"], f"{one['seconds']:.2f}", one["sample_rate_hz"], one["num_channels"], one["text"][:_SHOWN_TEXT])
        for one in content["samples"]
    ]
    console.print(grid("samples", ("key", "seconds#", "Hz#", "channels#", "text"), rows))
    for fault in content["faults"]:
        console.print(f"rejected: {fault['path']}: {fault['reason']}", soft_wrap=True)
    console.print(f"{content['yaml']} is written. Next: headrace build {content['yaml']}", soft_wrap=True)


def _page(layout: Layout, files: FileList, samples: Samples) -> bytes:
    unused = counts_said(extensions_of(layout.unused(files)))
    notes = "".join(f"<li>{escape(note)}</li>" for note in layout.notes)
    lead = f"<h1>{escape(files.path.name)}</h1><p class=lead>{escape(layout.name)}</p><ul>{notes}</ul>"
    faults = "".join(f"<p>rejected: {escape(path)}: {escape(reason)}</p>" for path, reason in samples.faults)
    body = f"{lead}<p>not used by the YAML: {escape(unused)}</p>"
    return html_page(files.path.name, body + cards([_card(samples, sample) for sample in samples.found]) + faults)


def _card(samples: Samples, sample: Sample) -> str:
    facts = f"{sample.path}, {sample.seconds:.2f} s, {sample.info.sample_rate_hz} Hz"
    try:
        sound = player(samples.sound(sample, CLIP_SECONDS), sample.info.sample_rate_hz, sample.key)
    except AudioError as error:
        sound = f"<p>{escape(str(error))}</p>"
    return f"<h3>{escape(sample.key)}</h3><small>{escape(facts)}</small>{sound}<p>{escape(sample.text)}</p>"
