"""Settings of `kind: transformers`: their defaults, and those that are rejected before a model is loaded."""

import pytest

from headrace.encoders.transformers_settings import TransformersSettings, parsed_settings
from headrace.errors import ConfigError


def test_a_model_alone_has_the_defaults():
    assert parsed_settings({"model": "some/model"}) == TransformersSettings("some/model")
    assert parsed_settings({"model": "m", "layer_weights": [0.5, 1]}).layer_weights == (0.5, 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": None}, "model: expected text, found nothing"),
        ({"layer": 1, "layer_weights": [1.0]}, "layer and layer_weights are both given"),
        ({"window_seconds": 0}, "window_seconds must be above 0, found 0"),
        ({"overlap_seconds": -0.5}, "overlap_seconds must not be below 0, found -0.5"),
        ({"autocast": "float8"}, "autocast: expected float16 or bfloat16"),
    ],
)
def test_invalid_settings_are_an_error_that_names_them(settings, message):
    with pytest.raises(ConfigError, match=f"encoder transformers: {message}"):
        parsed_settings({"model": "m", **settings})
