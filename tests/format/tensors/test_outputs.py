"""Descriptions of outputs survive JSON, and what pads them is no code."""

import json

import pytest

from headrace.errors import FormatError
from headrace.format.tensors.outputs import Output, hidden_output, outputs_as_json, outputs_of
from headrace.output_kinds import OutputKind

CODES = Output("codes", OutputKind.CODES, "int16", 320, 24_000)
VECTOR = Output("embedding", OutputKind.VECTOR, "float32")


def test_outputs_survive_json():
    outputs = (CODES, VECTOR, Output("levels", OutputKind.FRAMES, "bfloat16", 640, 24_000))
    assert outputs_of(json.loads(outputs_as_json(outputs)), "a.idx") == outputs


def test_what_pads_codes_is_no_code():
    paddings = {dtype: Output("a", OutputKind.CODES, dtype).padding for dtype in ("int16", "int32", "uint16")}
    assert paddings == {"int16": -1, "int32": -1, "uint16": 65_535}
    assert (VECTOR.padding, hidden_output("float16").padding) == (0, 0)


def test_rates_and_names_follow_from_the_output():
    assert (CODES.frame_rate_hz, VECTOR.frame_rate_hz, hidden_output("float16").frame_rate_hz) == (75, 0, 0)
    assert (CODES.length_name, hidden_output("float16").length_name) == ("codes_length", "encoder_length")
    assert (CODES.has_time, VECTOR.has_time) == (True, False)


@pytest.mark.parametrize(
    "listed", [7, [{}], [{"name": "a", "kind": "frames", "dtype": "int16"}], [CODES.described()] * 2]
)
def test_other_descriptions_are_errors_that_name_the_file(listed):
    with pytest.raises(FormatError, match=r"a\.idx: outputs are"):
        outputs_of(listed, "a.idx")
