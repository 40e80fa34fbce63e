"""docs/config.md names every key of a dataset's YAML with its default, and every environment variable."""

import re
from pathlib import Path
from typing import get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from headrace.config.content import EncoderConfig
from headrace.config.dataset import DatasetConfig, DatasetLoader, load_config
from headrace.format.keys import MAX_KEY_LENGTH

DOCUMENT = Path("docs/config.md").read_text()
(BLOCK,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
REQUIRED = """
source: {uri: /data/birds}
columns: [{name: captions, table: captions.parquet}]
features: [{name: loudness, kind: levels}]
latents: [{name: crepe, encoder: {kind: crepe}}]
views: {clean: {where: snr > 20, balance: {by: speaker, alpha: 0.5}}}
output: {uri: /data/shards/birds}
"""


def sections(model, content, where=""):
    """Every section of the model with its table in the document."""
    yield model, content, where
    for name, info in model.model_fields.items():
        types = [info.annotation, *get_args(info.annotation)]
        inner = next((kind for kind in types if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if inner is not None:
            below = next(iter(content[name]), None) if isinstance(content[name], list) else content[name]
            if get_origin(info.annotation) is dict:  # of sections by name
                below = next(iter(below.values()))
            if not isinstance(below, dict):  # a table that is a path, or a list of keys
                continue
            yield from sections(inner, below, f"{where}.{name}")


@pytest.mark.parametrize(
    ("model", "content", "where"), list(sections(DatasetConfig, {"name": "", **yaml.load(BLOCK, DatasetLoader)}))
)
def test_every_key_of_a_section_is_in_the_document(model, content, where):
    assert set(content) == {info.alias or name for name, info in model.model_fields.items()}, where


def test_the_values_in_the_document_are_the_defaults(tmp_path):
    loaded = []
    for text in (BLOCK, REQUIRED):
        (tmp_path / "birds.yaml").write_text(text)
        loaded.append(load_config(tmp_path / "birds.yaml").model_dump())
    documented, defaults = loaded
    assert documented == defaults


def test_every_key_in_the_document_has_a_description():
    assert [line for line in BLOCK.splitlines() if not re.search(r"\S  +?# .{5}|\S # .{5}", line)] == []


def test_every_encoder_and_the_limits_of_a_key_are_in_the_document():
    from headrace.encoders import KINDS

    assert all(re.search(rf"kind: crepe .*\b{kind}\b", BLOCK) for kind in KINDS)
    assert EncoderConfig.model_fields.keys() == {"kind"}
    assert f"1 to {MAX_KEY_LENGTH} of" in DOCUMENT


@pytest.mark.medium
def test_every_environment_variable_is_in_the_document():
    sources = [Path("build.py"), Path("definitions.py")]
    for folder in ("assets", "building", "headrace", "resources", "sensors"):
        sources += Path(folder).rglob("*.py")
    found = {name for path in sources for name in re.findall(r"\bHEADRACE_[A-Z_]*[A-Z]", path.read_text())}
    assert len(found) > 5
    assert {name for name in found | {"DAGSTER_HOME"} if f"| `{name}` |" not in DOCUMENT} == set()


def test_the_readme_links_to_the_document():
    assert "(docs/config.md)" in Path("README.md").read_text()
