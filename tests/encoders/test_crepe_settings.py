"""Settings of `kind: crepe` that are rejected."""

import pytest

from headrace.errors import ConfigError
from tests.support.crepe import _crepe


@pytest.mark.parametrize(
    "settings",
    [{"capacity": "huge"}, *({"hop_seconds": found} for found in (0, "fast", 60, float("nan"), float("inf")))],
)
def test_invalid_settings_are_an_error(settings: dict[str, object]) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match=next(iter(settings))):
        _crepe(**settings)
