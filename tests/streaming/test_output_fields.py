"""Names of the fields of outputs: bare while one folder has them, else with the folder's name."""

import pytest

from headrace.errors import ConfigError
from headrace.format.tensors.outputs import Output, hidden_output
from headrace.output_kinds import OutputKind
from headrace.streaming.output_fields import fields_in, hidden_field, output_fields, with_padding

CODES = Output("codes", OutputKind.CODES, "int16", 320, 24_000)
VECTOR = Output("embedding", OutputKind.VECTOR, "float32")


def test_a_name_is_bare_while_one_folder_has_it():
    (mimi, clap, crepe) = output_fields([("mimi", [CODES]), ("clap", [VECTOR]), ("crepe", [hidden_output("float16")])])
    assert [(field.values, field.length, field.offset) for field in mimi] == [("codes", "codes_length", "codes_offset")]
    assert [(field.values, field.length, field.has_time) for field in clap] == [("embedding", "", False)]
    assert crepe == (hidden_field(),)


def test_a_name_of_two_folders_has_the_folders_behind_it():
    first, second = output_fields([("mimi", [CODES, VECTOR]), ("dac", [CODES])])
    assert [field.values for field in (*first, *second)] == ["codes_mimi", "embedding", "codes_dac"]
    assert second[0].length == "codes_dac_length"
    assert [field.number for field in first] == [0, 1]


def test_only_codes_are_padded_with_what_the_user_says():
    (fields,) = output_fields([("mimi", [CODES, VECTOR])])
    assert [field.padding for field in with_padding(fields, {"codes": 9, "tokens": 5})] == [9, 0]
    assert [field.padding for field in fields] == [-1, 0]
    for pad in ({"embedding": 9}, {"codes_length": 9}, {"codes": 1 << 15}, {"codes": 0.5}):
        with pytest.raises(ConfigError, match="pad"):
            with_padding(fields, pad)
    with pytest.raises(ConfigError, match="'encoder_hidden' is a field of latents"):
        with_padding([hidden_field()], {"encoder_hidden": 9})


def test_a_sample_has_the_outputs_that_it_lists_and_still_holds():
    (fields,) = output_fields([("mimi", [CODES, VECTOR])])
    sample = {"codes": 1, "encoder_hidden_x": 2, "__outputs__": {field.values: field for field in fields}}
    assert fields_in(sample) == {"codes": fields[0], "encoder_hidden_x": hidden_field("_x")}
