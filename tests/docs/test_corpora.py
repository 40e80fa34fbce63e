"""The YAML of docs/corpora.md is valid, and its Python names arguments that exist."""

import inspect
import re
from pathlib import Path

import pytest
import yaml

from headrace import StreamingDataset
from headrace.config.dataset import parse_config

DOCUMENT = Path("docs/corpora.md").read_text()
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)]
WHOLE = [block for block in BLOCKS if "source" in block]
PARTS = [block for block in BLOCKS if "source" not in block]


@pytest.mark.parametrize("content", WHOLE, ids=lambda content: content["output"]["uri"])
def test_each_data_set_of_the_page_is_valid(content):
    parse_config(content, "example", Path("example.yaml"))


@pytest.mark.parametrize("content", PARTS, ids=lambda content: next(iter(content)))
def test_each_part_of_a_data_set_is_valid(content):
    base = {"source": {"uri": "/data/recordings"}, "output": {"uri": "/data/shards"}}
    parse_config(base | content, "example", Path("example.yaml"))


def test_the_page_has_five_examples_and_views():
    assert len(WHOLE) == 5
    assert "views" in PARTS[0]


def test_arguments_of_the_loader_exist():
    known = set(inspect.signature(StreamingDataset).parameters)
    calls = re.findall(r"StreamingDataset\((.*?)\)\n", DOCUMENT, re.DOTALL)
    named = {name for call in calls for name in re.findall(r"(\w+)=", call)}
    assert {"columns", "tensors", "view"} <= named <= known
