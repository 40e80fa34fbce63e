"""`kind: log_mel`: the logarithm of a mel spectrogram, an encoder without weights.

Importing this module does not import torch; the transform is in `headrace.encoders.log_mel_transform`.
"""

from collections.abc import Mapping

from headrace.encoders import settings as forms
from headrace.encoders.log_mel_settings import parsed_settings
from headrace.encoders.protocol import Encoder

CODE_VERSION = 1


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`."""
    return forms.fingerprint("log_mel", CODE_VERSION, parsed_settings(settings))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    from headrace.encoders.log_mel_transform import LogMelEncoder  # noqa: PLC0415 - needs torch

    return LogMelEncoder(parsed_settings(settings), fingerprint(settings), device)
