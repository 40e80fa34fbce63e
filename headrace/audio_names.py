"""Names of audio files and of audio fields: which extensions are audio, and which names a field may have."""

import re

from headrace.batch_names import NAMES_OF_BATCHES
from headrace.errors import ConfigError

AUDIO_EXTENSIONS = ("flac", "wav", "ogg", "opus", "mp3", "aiff", "aif", "aifc", "au", "caf", "w64", "rf64", "m4a")
"""Extensions of files that hold audio, in the order in which the audio of a sample is chosen among several."""

_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_RESERVED = ("json", "key", "pth", *sorted(NAMES_OF_BATCHES - {"audio", "is_padding"}))
_RESERVED_BEGINNINGS = ("encoder_", "is_")


def check_audio_field(name: str) -> str:
    """A name that an audio field may have.

    Raises:
        ConfigError: it is not such a name, or samples and batches use it for something else.
    """
    taken = (*_RESERVED, *AUDIO_EXTENSIONS)
    if _FIELD_NAME.fullmatch(name) and name not in taken and not name.startswith(_RESERVED_BEGINNINGS):
        return name
    raise ConfigError(
        f"{name!r} cannot be the name of an audio field: expected a lower-case letter, then at most 39 of a-z, 0-9 and "
        f"_, and no name that samples and batches use themselves ({', '.join(taken)}, encoder_…, is_…); choose another "
        "name"
    )
