"""`output: codes` and `output: latents` of `kind: transformers`: models whose `encode` gives `audio_codes`.

EnCodec, DAC, Mimi, X-Codec and models like them take one path. What differs is read from the configuration, or found by
encoding a second of silence: hop, chunks, codebooks. Imports torch, but not transformers.
"""

import inspect
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.encoders import running
from headrace.encoders.framing import to_device, zero_padding
from headrace.encoders.outputs import EncoderOutput
from headrace.encoders.transformers_codec_form import CodecForm
from headrace.encoders.transformers_settings import TransformersSettings
from headrace.errors import ConfigError
from headrace.output_kinds import OutputKind


class Codec:
    """An `Encoder` around a model with codebooks."""

    def __init__(self, model: Any, settings: TransformersSettings, fingerprint: str, device: str) -> None:  # noqa: ANN401
        if not hasattr(model, "quantizer") or inspect.signature(model.encode).parameters.get("input_features"):
            raise unfit(model, settings.output)
        self._form = form = CodecForm.of(model.config)
        self._settings, self.device, self.fingerprint = settings, device, fingerprint
        self.sample_rate_hz, self.num_channels, self.hop = form.sample_rate_hz, form.num_channels, form.stride
        self.info = form.info(settings)
        if settings.output == "latents":
            model.quantizer = _Unquantised()
        self._model = running.frozen(model, device)  # before the first `encode`: Mimi keeps its codebooks where it ran
        silence = torch.zeros(1, self.num_channels, form.padded(self.sample_rate_hz), device=device)
        self._call = _Call.of(model, settings, silence)
        self._check_frames(silence)
        self.latent_dim = self._call.width
        self.outputs = tuple(self._outputs())

    def _check_frames(self, silence: Tensor) -> None:
        found = self._call.of_audio(self._model, silence)[0].shape[1]
        if found != (expected := self.num_latent_frames(silence.shape[2])):
            raise ConfigError(
                f"encoder transformers: models of type {self._model.config.model_type!r} give {found} frames where "
                f"hops of {self._form.hop} make {expected}; write your own encoder and use kind: custom"
            )

    def _outputs(self) -> list[EncoderOutput]:
        form, hop = self._form, Fraction(self._form.stride, self._form.frames_of_chunk)
        each = hop.numerator if hop.denominator == 1 else hop
        dtype = "int16" if form.codebook_size < 2**15 else "int32"
        if self._settings.output == "latents":
            return [EncoderOutput("latents", OutputKind.FRAMES, self._call.width, each)]
        found = [EncoderOutput("codes", OutputKind.CODES, self._call.width, each, dtype)]
        if form.scales and form.has_chunks:
            found.append(EncoderOutput("scales", OutputKind.FRAMES, 1, form.stride))
        elif form.scales:
            found.append(EncoderOutput("scales", OutputKind.VECTOR, 1))
        return found

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return self._form.num_chunks(num_frames) * self._form.frames_of_chunk

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> Any:  # noqa: ANN401 - a dict, see `Encoder`
        """See `Encoder`. Models that are not causal get rows of one padded length at a time."""
        chunks = torch.tensor([self._form.num_chunks(int(length)) for length in lengths])
        run = self._run if self._form.takes_padding else self._run_by_length
        values, scales = run(batch, chunks)
        count = chunks * self._form.frames_of_chunk
        found: dict[str, object] = {self.outputs[0].name: (zero_padding(values, count), count)}
        if len(self.outputs) > 1:
            assert scales is not None
            found["scales"] = (zero_padding(scales, chunks), chunks) if self._form.has_chunks else scales[:, 0]
        return found

    def _run_by_length(self, batch: Tensor, chunks: Tensor) -> tuple[Tensor, Tensor | None]:
        """Values and scales as of `_run`, rows of one number of chunks at a time."""
        found: list[tuple[Tensor, Tensor | None]] = [(batch[:0], None)] * len(batch)
        for number in set(chunks.tolist()):
            rows = (chunks == number).nonzero()[:, 0]
            values, scales = self._run(batch[to_device(rows, batch.device)], chunks[rows])
            for place, row in enumerate(rows.tolist()):
                found[row] = (values[place], None if scales is None else scales[place])
        scaled = [scales for _, scales in found if scales is not None]
        padded = nn.utils.rnn.pad_sequence([values for values, _ in found], batch_first=True)
        return padded, torch.stack(scaled) if scaled else None

    def _run(self, batch: Tensor, chunks: Tensor) -> tuple[Tensor, Tensor | None]:
        """Values (B, T, K) and scales (B, chunks, 1) of rows, whose padding is part of the input."""
        longest = int(chunks.max())
        audio = batch[..., : longest * self._form.stride]
        audio = functional.pad(audio, (0, self._form.padded(longest * self._form.stride) - audio.shape[2]))
        with running.precision(self.device, self._settings.autocast):
            values, scales = self._call.of_audio(self._model, audio)
        if scales is not None:
            scales = scales[:, :longest]  # transformers makes one chunk more, of the end of the last one
        return values[:, : longest * self._form.frames_of_chunk], scales


@dataclass(frozen=True, slots=True)
class _Call:
    """Arguments of a model's `encode`.

    Attributes:
        options: arguments beside the audio.
        width: codebooks that are kept, or the size of a latent frame.
    """

    options: dict[str, float]
    width: int

    @classmethod
    def of(cls, model: Any, settings: TransformersSettings, silence: Tensor) -> "_Call":  # noqa: ANN401
        """The call that gives what is wanted, found by encoding silence.

        Raises:
            ConfigError: the model has no such bandwidth, or fewer codebooks.
        """
        width, wanted = 0, settings.num_codebooks
        for options in _choices(model, settings):
            width = cls(options, 0).whole(model, silence)[0].shape[2]
            if width >= (wanted or 1):
                return cls(options, wanted or width)
        raise ConfigError(f"encoder transformers: num_codebooks {wanted}: this model has {width}")

    def of_audio(self, model: Any, audio: Tensor) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
        """Values (B, T, K) and scales (B, chunks, 1) of audio (B, C, N)."""
        values, scales = self.whole(model, audio)
        return values[..., : self.width], scales

    def whole(self, model: Any, audio: Tensor) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
        """Values and scales as of `of_audio`, of all codebooks that the model gives."""
        with torch.inference_mode():
            found = model.encode(audio, **self.options, return_dict=True)
        codes = found.audio_codes if found.audio_codes.ndim == 4 else found.audio_codes[None]  # (chunks, B, K, T)
        scales = [one for one in getattr(found, "audio_scales", None) or [] if one is not None]
        return codes.permute(1, 0, 3, 2).flatten(1, 2), torch.stack(scales, 1) if scales else None


def _choices(model: Any, settings: TransformersSettings) -> list[dict[str, float]]:  # noqa: ANN401
    """Arguments of `encode` to try, those that give the fewest codebooks first."""
    has_bandwidths = "bandwidth" in inspect.signature(model.encode).parameters
    known = sorted(model.config.target_bandwidths) if has_bandwidths else []
    if settings.bandwidth is None:
        return [{"bandwidth": one} for one in known if settings.num_codebooks] or [{}]
    if settings.bandwidth in known:
        return [{"bandwidth": settings.bandwidth}]
    has = f"the bandwidths {', '.join(f'{one:g}' for one in known)}" if known else "none"
    raise ConfigError(f"encoder transformers: bandwidth {settings.bandwidth:g}: this model has {has}")


class _Unquantised(nn.Module):
    """A quantizer that gives its input as if it were codes, so that latents come the way that codes come."""

    def encode(self, embeddings: Tensor, *_: object, **__: object) -> Tensor:
        """(D, B, T) of (B, D, T), as EnCodec, Mimi and X-Codec transpose codes."""
        return embeddings.float().transpose(0, 1)

    def forward(self, embeddings: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor, float, float]:
        """DAC's: quantised values, codes, latents, and two losses."""
        return embeddings, embeddings.float(), embeddings, 0.0, 0.0


def unfit(model: Any, output: str) -> ConfigError:  # noqa: ANN401
    """The error about a model that does not have this output."""
    has = {
        "codes": "models whose encode(input_values) gives audio_codes have them: EnCodec, DAC, Mimi, X-Codec",
        "latents": "models whose encode(input_values) gives audio_codes have them: EnCodec, DAC, Mimi, X-Codec",
        "vector": "models with get_audio_features (CLAP) or a pooled output (AST) have one",
    }[output]
    return ConfigError(
        f"encoder transformers: output: {output}: models of type {model.config.model_type!r} are not supported; {has}. "
        'Use output: hidden, or write your own encoder and use kind: custom, encoder: "module:Class"'
    )
