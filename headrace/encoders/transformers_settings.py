"""Settings of `kind: transformers`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headrace.encoders import settings as forms
from headrace.errors import ConfigError

_OF_OUTPUTS = {"hidden": ("layer", "layer_weights", "compile"), "codes": ("num_codebooks", "bandwidth")}


class HubModel(Protocol):
    """The settings that say which model is loaded; see `TransformersSettings`."""

    @property
    def model(self) -> str:
        """A folder, or a name on the hub."""

    @property
    def revision(self) -> str | None:
        """Commit, tag or branch on the hub."""

    @property
    def trust_remote_code(self) -> bool:
        """Whether to run Python code that comes with the model."""


@dataclass(frozen=True, slots=True)
class TransformersSettings:
    """Settings of `kind: transformers`.

    Attributes:
        model: a folder that `save_pretrained` wrote (model and feature extractor), or a name on the hub.
        output: `hidden` states; `codes` of a codec; the `latents` that it quantises; or a `vector` of the whole input.
        num_codebooks: of codes, the first ones; None for as many as the model gives by default.
        bandwidth: of codes, in kbit/s, instead of `num_codebooks`.
        revision: commit, tag or branch on the hub. Only a commit guarantees that the latents stay the same.
        layer: number of the hidden state to use, 0 for the embeddings; None for the model's output.
        layer_weights: weights of a sum over all hidden states, embeddings first; used instead of `layer`.
        window_seconds: length of the windows into which longer recordings are cut; None for 30 s (AST: 10 s).
        overlap_seconds: overlap of neighbouring windows.
        trust_remote_code: whether to run Python code that comes with the model.
        autocast: dtype that the model computes in; None for float32.
        compile: whether to run the model through torch.compile.
    """

    model: str = field(metadata={"results": False})  # results depend on the content of the files, not on the path
    output: Literal["hidden", "codes", "vector", "latents"] = field(default="hidden", metadata={"results": "if set"})
    num_codebooks: int | None = field(default=None, metadata={"results": "if set"})
    bandwidth: float | None = field(default=None, metadata={"results": "if set"})
    revision: str | None = field(default=None, metadata={"results": False})
    layer: int | None = None
    layer_weights: tuple[float, ...] | None = None
    window_seconds: float | None = None
    overlap_seconds: float = 2.0
    trust_remote_code: bool = field(default=False, metadata={"results": False})  # the code's files are digested
    autocast: Literal["float16", "bfloat16"] | None = None
    compile: bool = field(default=False, metadata={"results": False})


def parsed_settings(settings: Mapping[str, object]) -> TransformersSettings:
    """The settings of a YAML entry.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    parsed = forms.parse("transformers", settings, TransformersSettings)
    if parsed.layer is not None and parsed.layer_weights is not None:
        raise ConfigError("encoder transformers: layer and layer_weights are both given; give one of them")
    if parsed.window_seconds is not None and parsed.window_seconds <= 0:
        raise ConfigError(f"encoder transformers: window_seconds must be above 0, found {parsed.window_seconds:g}")
    if parsed.overlap_seconds < 0:
        raise ConfigError(
            f"encoder transformers: overlap_seconds must not be below 0, found {parsed.overlap_seconds:g}"
        )
    _check_output(parsed)
    return parsed


def _check_output(parsed: TransformersSettings) -> None:
    """Raise `ConfigError` if a setting belongs to another output than the wanted one."""
    if parsed.num_codebooks is not None and parsed.bandwidth is not None:
        raise ConfigError("encoder transformers: num_codebooks and bandwidth are both given; give one of them")
    if parsed.num_codebooks is not None and parsed.num_codebooks < 1:
        raise ConfigError(f"encoder transformers: num_codebooks must be at least 1, found {parsed.num_codebooks}")
    for output, names in _OF_OUTPUTS.items():
        given = [name for name in names if getattr(parsed, name) is not None and getattr(parsed, name) is not False]
        if given and parsed.output != output:
            raise ConfigError(f"encoder transformers: {given[0]} belongs to output: {output}, found {parsed.output}")
