"""`kind: onnx`: a model in an ONNX file, run by onnxruntime on CPUs.

The file may be one of an installed package; the package is never imported. Importing this module imports neither torch
nor onnxruntime.
"""

from collections.abc import Mapping

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.onnx_settings import parsed_settings
from headrace.encoders.protocol import Encoder

CODE_VERSION = 1


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`. It depends on the content of the file, not on its path."""
    parsed = parsed_settings(settings)
    return forms.fingerprint("onnx", CODE_VERSION, parsed, weights.file_digest(parsed.path()))


def load(settings: Mapping[str, object], device: str) -> Encoder:  # noqa: ARG001 - a CPU computes, beside any GPU
    """See `headrace.encoders.load`."""
    parsed = parsed_settings(settings)
    from headrace.encoders.onnx_model import OnnxEncoder  # noqa: PLC0415 - needs torch

    return OnnxEncoder(parsed, parsed.path(), fingerprint(settings))
