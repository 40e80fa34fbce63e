"""Results of commands become one JSON object of plain values."""

import json
from dataclasses import dataclass
from enum import Enum

import numpy as np

from headrace.cli.as_json import facts_content, plain, print_json
from headrace.upkeep.inspection import DatasetFacts, TarFacts
from headrace.upkeep.inspection import LengthFacts as Lengths


class Colour(Enum):
    RED = "red"


@dataclass
class Inner:
    rate: np.int32
    colours: tuple[Colour, ...]


def test_values_of_python_and_numpy_are_plain():
    found = plain({1: Inner(np.int32(8000), (Colour.RED,)), "b": [np.float32(0.5), None, True, "text"]})
    assert found == {"1": {"rate": 8000, "colours": ["red"]}, "b": [0.5, None, True, "text"]}
    assert type(found["1"]["rate"]) is int


def test_one_ascii_object_is_printed(capsys):
    print_json({"name": "é"})
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"name": "é"}


def test_the_facts_of_tars_are_listed():
    tars = TarFacts((("a.tar", 3, 10240),), Lengths(num_indexes=1, rates_hz={8000: 3}))
    found = json.loads(json.dumps(plain(facts_content(DatasetFacts("folder", tars=tars)))))
    assert found["path"] == "folder"
    assert (found["parts"], found["views"], found["catalog"]) == ([], [], None)
    assert found["tars"]["shards"] == [["a.tar", 3, 10240]]
    assert found["tars"]["lengths"]["rates_hz"] == {"8000": 3}
