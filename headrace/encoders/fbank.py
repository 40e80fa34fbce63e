"""`kind: fbank`: Kaldi's log-mel filter banks, as `kaldi-native-fbank` computes them without dither.

Importing this module does not import torch; the transform is in `headrace.encoders.fbank_transform`.
"""

from collections.abc import Mapping

from headrace.encoders import settings as forms
from headrace.encoders.fbank_settings import parsed_settings
from headrace.encoders.protocol import Encoder

CODE_VERSION = 1


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`."""
    return forms.fingerprint("fbank", CODE_VERSION, parsed_settings(settings))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    from headrace.encoders.fbank_transform import FbankEncoder  # noqa: PLC0415 - needs torch

    return FbankEncoder(parsed_settings(settings), fingerprint(settings), device)
