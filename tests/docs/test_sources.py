"""Each kind of source in docs/sources.md begins with its owner's layout and ends with a batch, which is a real one."""

import json
import re
from pathlib import Path

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.sources.kinds.crc32c import crc32c
from tests.support import layouts
from tests.support.corpora import build, text
from tests.support.layouts import SIX
from tests.support.tfrecords import example, write_records

PAGE = Path("docs/sources.md").read_text()
SECTIONS = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))


def tfrecord(root):
    records = [{"audio": [SIX.content(root, number)], "text": [text(number).encode()]} for number in SIX.numbers]
    write_records(root / "speech-train.tfrecord-00000-of-00001", [example(one) for one in records], crc32c)


WRITERS = {
    "kaldi": (layouts.kaldi, "."),
    "nemo": (layouts.nemo, "train_manifest.json"),
    "lhotse": (layouts.lhotse, "."),
    "webdataset": (layouts.webdataset, "shards"),
    "parquet": (layouts.parquet, "data"),
    "tfrecord": (tfrecord, "."),
}


def test_each_kind_has_a_section():
    assert SECTIONS.keys() == {*WRITERS, "headrace"}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_section_begins_with_the_layout_and_ends_with_a_batch(kind, tmp_path):
    section, (write, place) = SECTIONS[kind].strip(), WRITERS[kind]
    begin, _, rest = section.partition("```yaml")
    assert re.search(r"^    \S", begin, re.MULTILINE), "a layout"
    shown = json.loads(re.search(r"```json\n(.*)\n```$", rest)[1])
    write(tmp_path / "corpus")
    build(tmp_path, {"kind": kind, "uri": str(tmp_path / "corpus" / place)})
    dataset = StreamingDataset(remote=str(tmp_path / "output"), batch_size=6)
    (batch,) = StreamingDataLoader(dataset)
    rows = [{name: value for name, value in row.items() if name != "headrace"} for row in batch["metadata"]]
    assert shown in rows
    assert batch["audio"].shape[0] == 6
