"""`kind: custom`: an encoder that the user wrote, named by `module:Class`.

The class is called with `device=` and the other settings of the YAML entry. Its instances have the attributes of
`Encoder`; `info`, `num_latent_frames` and `device` are optional, and with `outputs` also `hop` and `latent_dim`.
`fingerprint` must change whenever the results change: it has to cover weights, code and settings. `encode` is called
from several threads at once only if `info` says `is_concurrent`. Errors of the user's code name the class.
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.encoders import settings as forms
from headrace.encoders.outputs import common_hop, parsed_outputs
from headrace.encoders.protocol import Encoder, EncoderInfo
from headrace.encoders.settings import WindowSeconds
from headrace.errors import BuildError, ConfigError, HeadraceError
from headrace.output_kinds import CONTEXT_SECONDS

if TYPE_CHECKING:
    import torch

_COUNTS = ("sample_rate_hz", "num_channels")
_COUNTS_OF_HIDDEN = ("hop", "latent_dim")
_NEEDED = ("fingerprint", "encode")
_WINDOW_SECONDS, _OVERLAP_SECONDS = 30.0, 2.0


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`. The encoder is loaded, unless its class has `fingerprint_of(settings)`."""
    found, own = _class_of(settings)
    if hasattr(found, "fingerprint_of"):
        with _blamed(settings, "its fingerprint_of"):
            return _named(settings, str(found.fingerprint_of(own)))
    return load(settings, "cpu").fingerprint


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    found, own = _class_of(settings)
    with _blamed(settings, "loading it"):
        encoder = found(device=device, **own)
        _check_facts(encoder, str(settings["encoder"]))
        return CustomEncoder(encoder, settings, device)


def _check_facts(encoder: Any, name: str) -> None:  # noqa: ANN401
    counts = (*_COUNTS, *(_COUNTS_OF_HIDDEN if getattr(encoder, "outputs", None) is None else ()))
    missing = [fact for fact in (*counts, *_NEEDED) if getattr(encoder, fact, None) is None]
    if missing:
        raise ConfigError(f"encoder custom: {name} lacks {', '.join(missing)}; see headrace.encoders.Encoder")
    for fact in counts:
        value = getattr(encoder, fact)
        if int(value) != value or value < 1:
            raise ConfigError(
                f"encoder custom: {name}: its {fact} must be a whole number of at least 1, found {value!r}"
            )
    info = getattr(encoder, "info", None)
    if not isinstance(info, EncoderInfo | None):
        raise ConfigError(
            f"encoder custom: {name}: its info must be a headrace.encoders.EncoderInfo, found {type(info).__name__}"
        )


def _named(settings: Mapping[str, object], own: str) -> str:
    return forms.digest("custom", str(settings["encoder"]), own)


def _class_of(settings: Mapping[str, object]) -> tuple[Any, dict[str, Any]]:
    """The user's class, and the settings to call it with."""
    name = settings.get("encoder")
    module, _, attribute = str(name or "").partition(":")
    if not module or not attribute:
        raise ConfigError(f'encoder custom: encoder must be "module:Class", found {name!r}')
    with _blamed(settings, "importing it"):
        try:
            home = importlib.import_module(module)
        except ImportError as error:
            words = f"importing it raised {type(error).__name__}: {error}"
            raise ConfigError(f"encoder custom: {name}: {words}; is its folder on PYTHONPATH?") from error
        found = getattr(home, attribute)
    own = {key: value for key, value in settings.items() if key != "encoder"}
    _check_settings(found, str(name), own)
    return found, own


def _check_settings(found: Any, name: str, own: Mapping[str, Any]) -> None:  # noqa: ANN401
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"encoder custom: {name}: {error}; name a class") from error
    try:
        signature.bind(device="cpu", **own)
    except TypeError as error:
        raise ConfigError(
            f"encoder custom: {name}: {error}; it takes {', '.join(signature.parameters) or 'nothing'}"
        ) from error


@contextmanager
def _blamed(settings: Mapping[str, object], what: str) -> Iterator[None]:
    """Turn errors of the user's code into `ConfigError`s that name the class."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise ConfigError(
            f"encoder custom: {settings['encoder']}: {what} raised {type(error).__name__}: {error}"
        ) from error


class CustomEncoder:
    """An `Encoder` around the user's object, with defaults for what the object lacks.

    Attributes:
        name: name of the encoder in messages.
    """

    def __init__(self, encoder: Any, settings: Mapping[str, object], device: str) -> None:  # noqa: ANN401
        self._encoder = encoder
        self.name = f"custom: {settings['encoder']}"
        self.fingerprint = _named(settings, str(encoder.fingerprint))
        self.device = str(getattr(encoder, "device", device))
        self.sample_rate_hz, self.num_channels = int(encoder.sample_rate_hz), int(encoder.num_channels)
        declared = getattr(encoder, "outputs", None)
        self.outputs = None if declared is None else parsed_outputs(declared, self.name)
        self.hop = int(encoder.hop) if self.outputs is None else common_hop(self.outputs)
        self.latent_dim = int(encoder.latent_dim) if self.outputs is None else self.outputs[0].width
        self.info: EncoderInfo = getattr(encoder, "info", None) or self._default_info()

    def _default_info(self) -> EncoderInfo:
        context = max(self.hop, round(CONTEXT_SECONDS * self.sample_rate_hz))
        seconds = WindowSeconds(_WINDOW_SECONDS, _OVERLAP_SECONDS)
        return EncoderInfo(context, *seconds.default_frames(self.sample_rate_hz, self.hop, context))

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`. N / hop, rounded up, if the user's object has no such method.

        Raises:
            BuildError: the user's method raises an error, which is chained.
        """
        own = getattr(self._encoder, "num_latent_frames", None)
        if own is None:
            return max(1, -(-num_frames // self.hop))
        try:
            return int(own(num_frames))
        except Exception as error:
            raise BuildError(
                f"encoder {self.name}: its num_latent_frames({num_frames}) raised {type(error).__name__}: {error}"
            ) from error

    def encode(self, batch: "torch.Tensor", lengths: "torch.Tensor") -> Any:  # noqa: ANN401
        """See `Encoder`. The result is not checked here; `output.checked` does that."""
        return self._encoder.encode(batch, lengths)
