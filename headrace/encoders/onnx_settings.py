"""Settings of `kind: onnx`, and the file of its model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.encoders import settings as forms
from headrace.encoders import weights
from headrace.encoders.outputs import EncoderOutput, parsed_outputs
from headrace.errors import ConfigError

_PROVIDERS = ("cpu",)
_Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class OnnxSettings:
    """Settings of `kind: onnx`.

    Attributes:
        file: path of the model, or `package:path`, a file of an installed package, which is not imported.
        sample_rate_hz: sample rate of the encoder's input.
        outputs: name → kind, width and hop as of `headrace.encoders.Encoder`, and `tensor`, the model's own name of it.
        input: the model's name of the audio; None for its first input.
        input_frames: length that the model takes; shorter input is filled as `short` says. None for any length.
        short: how input is filled to `input_frames`: with zeros (`pad`), or with itself (`repeat`).
        chunk: PCM frames that the model takes at a time; outputs have one frame for each chunk. None for all at once.
        context: PCM frames before each chunk that the model takes with it.
        layout: `batch` runs the chunks one after the other, of all rows together; `sequence` gives the model all chunks
            of one row at once, as (chunks, context + chunk).
        state: the model's name of each input that carries state → of the output that the next chunk takes. It begins
            with zeros.
        constants: the model's name of other inputs → their value.
        window_seconds: length of the windows into which longer recordings are cut, each with a new state; None for
            `input_frames`, 600 s with state, or 30 s.
        overlap_seconds: overlap of neighbouring windows, at most half of one.
        provider: what computes; only `cpu`.
    """

    file: str = field(metadata={"results": False})  # results depend on its content
    sample_rate_hz: _Count
    outputs: dict[str, dict[str, Any]]
    input: str | None = None
    input_frames: _Count | None = None
    short: Literal["pad", "repeat"] = "pad"
    chunk: _Count | None = None
    context: Annotated[int, Field(ge=0)] = 0
    layout: Literal["batch", "sequence"] = "batch"
    state: dict[str, str] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    window_seconds: Annotated[float, Field(gt=0)] | None = None
    overlap_seconds: Annotated[float, Field(ge=0)] = 2.0
    provider: str = "cpu"

    def path(self) -> Path:
        """Path of the model.

        Raises:
            ConfigError: there is no such file.
            MissingDependencyError: the package is not installed, or lacks the file.
        """
        return weights.named_file(self.file, "encoder onnx: file")

    @property
    def declared(self) -> tuple[EncoderOutput, ...]:
        """The outputs, those with time first."""
        plain = {name: {k: v for k, v in facts.items() if k != "tensor"} for name, facts in self.outputs.items()}
        return parsed_outputs(plain, "onnx")

    def tensor(self, output: str) -> str:
        """The model's own name of an output."""
        return str(self.outputs[output].get("tensor", output))


def parsed_settings(settings: Mapping[str, object]) -> OnnxSettings:
    """The settings of a YAML entry.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    parsed = forms.parse("onnx", settings, OnnxSettings)
    if parsed.provider not in _PROVIDERS:
        raise ConfigError(
            f"encoder onnx: provider {parsed.provider!r} is not supported, because it never ran; use provider: cpu"
        )
    if parsed.chunk is None and (parsed.state or parsed.context or parsed.layout == "sequence"):
        raise ConfigError("encoder onnx: state, context and layout: sequence are of chunks; give chunk")
    if parsed.chunk and parsed.input_frames:
        raise ConfigError("encoder onnx: chunk and input_frames are both given; give one of them")
    wrong = [output.name for output in parsed.declared if parsed.chunk and output.hop != parsed.chunk]
    if wrong:
        raise ConfigError(
            f"encoder onnx: output {wrong[0]!r}: with chunks, an output has frames whose hop is the chunk"
        )
    return parsed
