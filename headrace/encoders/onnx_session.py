"""Opens ONNX models with onnxruntime on a CPU. Importing this module does not import onnxruntime."""

import importlib.util
from pathlib import Path
from typing import Any

from headrace.errors import IntegrityError, MissingDependencyError


def open_session(path: Path, what: str) -> Any:  # noqa: ANN401 - onnxruntime is not typed
    """An `onnxruntime.InferenceSession` that computes on one core.

    Args:
        path: the model.
        what: who needs it, for the message.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        IntegrityError: onnxruntime cannot load the model.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingDependencyError(f'{what}: the package onnxruntime is not installed: pip install "headrace[onnx]"')
    import onnxruntime  # noqa: PLC0415 - an extra

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # each core has a batch of its own
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no base class of their own
        raise IntegrityError(f"{path}: onnxruntime cannot load this model: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of an error of onnxruntime, or its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]
