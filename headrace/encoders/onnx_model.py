"""The encoder of `kind: onnx`. Imports torch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.encoders.framing import zero_padding
from headrace.encoders.onnx_session import first_line, open_session
from headrace.encoders.onnx_settings import OnnxSettings
from headrace.encoders.outputs import EncoderOutput, common_hop
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import WindowSeconds
from headrace.errors import BuildError, ConfigError
from headrace.output_kinds import CONTEXT_SECONDS

_WINDOW_SECONDS, _WINDOW_SECONDS_OF_STATE = 30.0, 600.0
_DTYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}
_DTYPES |= {"tensor(int32)": np.int32, "tensor(float16)": np.float16}

Array = np.ndarray[Any, Any]


class OnnxEncoder:
    """An `Encoder` around an ONNX model that takes mono audio. Rows never see the padding of others."""

    num_channels, device = 1, "cpu"

    def __init__(self, settings: OnnxSettings, path: Path, fingerprint: str) -> None:
        self._settings, self.fingerprint, self.outputs = settings, fingerprint, settings.declared
        self.sample_rate_hz, self.hop = settings.sample_rate_hz, common_hop(self.outputs)
        self.latent_dim = self.outputs[0].width
        self._session = open_session(path, "encoder onnx")
        self._inputs = {one.name: one for one in self._session.get_inputs()}
        self._audio = settings.input or next(iter(self._inputs))
        self._wanted = [settings.tensor(output.name) for output in self.outputs]
        self._check_names(path)
        self.info = self._info()

    def _check_names(self, path: Path) -> None:
        known = [one.name for one in self._session.get_outputs()]
        if lacking := [name for name in (*self._wanted, *self._settings.state.values()) if name not in known]:
            raise ConfigError(f"encoder onnx: {path.name} has no output {lacking[0]!r}; it has {', '.join(known)}")
        given = {self._audio, *self._settings.state, *self._settings.constants}
        if wrong := sorted(given ^ self._inputs.keys()):
            raise ConfigError(
                f"encoder onnx: {path.name} has the inputs {', '.join(self._inputs)}; found "
                f"{', '.join(sorted(given))}: name {wrong[0]!r} as input, state or constants, or leave it out"
            )

    def _info(self) -> EncoderInfo:
        own = self._settings
        default = _WINDOW_SECONDS_OF_STATE if own.state else _WINDOW_SECONDS
        if own.input_frames:
            default = own.input_frames // self.hop * self.hop / self.sample_rate_hz
        context = 0 if own.input_frames else round(CONTEXT_SECONDS * self.sample_rate_hz)
        seconds = own.window_seconds or default
        half = round(seconds * self.sample_rate_hz) // self.hop // 2 * self.hop / self.sample_rate_hz
        cut = WindowSeconds(seconds, min(own.overlap_seconds, half))
        window, overlap = cut.frames(self.sample_rate_hz, self.hop, context)
        if own.input_frames and window > own.input_frames:
            raise ConfigError(f"encoder onnx: window_seconds: the model takes {own.input_frames} PCM frames at most")
        return EncoderInfo(context, window, overlap, is_concurrent=True, padded_to=own.input_frames or 0)

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return max(1, -(-num_frames // self.hop))

    def encode(self, batch: Tensor, lengths: Tensor) -> Any:  # noqa: ANN401 - a dict, see `Encoder`
        """See `Encoder`."""
        rows = [row[: int(length)] for row, length in zip(batch[:, 0].numpy(), lengths, strict=True)]
        found = self._chunked(rows) if self._settings.chunk else [self._whole(row) for row in rows]
        return {
            output.name: self._batched(output, [row[i] for row in found], lengths)
            for i, output in enumerate(self.outputs)
        }

    def _batched(self, output: EncoderOutput, rows: list[Array], lengths: Tensor) -> Any:  # noqa: ANN401 - as `encode`
        """An output of a batch: (B, D), or (B, T, K) with its lengths."""
        found = [_of_width(output, np.asarray(row)) for row in rows]
        if not output.has_time:
            return torch.cat(found)
        for values, length in zip(found, lengths.tolist(), strict=True):
            num_frames = self._settings.input_frames or length
            if not output.fits(len(values), num_frames, self.info.context):
                raise BuildError(
                    f"encoder onnx: output {output.name!r} has {len(values)} frames for {num_frames} PCM frames, "
                    f"expected about {num_frames / output.hop:.0f}; correct its hop"
                )
        count = torch.minimum(-(-lengths // int(output.hop)), torch.tensor([len(values) for values in found]))
        return zero_padding(torch.nn.utils.rnn.pad_sequence(found, batch_first=True), count), count

    def _whole(self, row: Array) -> list[Array]:
        """The outputs of a row that the model takes at once."""
        size = self._settings.input_frames or -(-len(row) // self.hop) * self.hop
        filled = np.resize(row, size) if self._settings.short == "repeat" else np.pad(row, (0, size - len(row)))
        return self._run(filled[None], self._constants())[: len(self._wanted)]

    def _chunked(self, rows: list[Array]) -> list[list[Array]]:
        """The outputs of rows that the model takes in chunks."""
        if self._settings.layout == "sequence":
            return [
                self._run(self._chunks(row), self._constants() | self._zeros(1))[: len(self._wanted)] for row in rows
            ]
        longest = max(map(len, rows))
        chunks = np.stack([self._chunks(np.pad(row, (0, longest - len(row)))) for row in rows], 1)
        steps = list(self._steps(chunks, len(rows)))
        own = [steps[: self.num_latent_frames(len(row))] for row in rows]  # without those of the padding
        return [
            [np.stack([step[i][row] for step in of_row]) for i in range(len(self._wanted))]
            for row, of_row in enumerate(own)
        ]

    def _steps(self, chunks: Array, num_rows: int) -> Iterator[list[Array]]:
        """The outputs of each chunk (B, context + chunk), the state handed on."""
        state = self._zeros(num_rows)
        for chunk in chunks:
            found = self._run(chunk, self._constants() | state)
            state = dict(zip(state, found[len(self._wanted) :], strict=True))
            yield found[: len(self._wanted)]

    def _chunks(self, row: Array) -> Array:
        """Chunks (T, context + chunk) of a row, with zeros before its beginning and after its end."""
        size, context = self._settings.chunk or 1, self._settings.context
        padded = np.pad(row, (context, -len(row) % size))
        return np.lib.stride_tricks.sliding_window_view(padded, context + size)[::size]

    def _run(self, audio: Array, others: dict[str, Array]) -> list[Array]:
        axes = self._inputs[self._audio].shape
        if len(axes) == audio.ndim + 1:  # models that take channels, before time or after it
            audio = np.expand_dims(audio, 2 if axes[2] == 1 != axes[1] else 1)
        names = [*self._wanted, *self._settings.state.values()]
        try:
            found: list[Array] = self._session.run(names, {self._audio: np.ascontiguousarray(audio)} | others)
        except Exception as error:  # onnxruntime's errors have no base class of their own
            raise BuildError(f"encoder onnx: the model rejects input of {audio.shape}: {first_line(error)}") from error
        return found

    def _zeros(self, num_rows: int) -> dict[str, Array]:
        """State of zeros; dimensions that the model leaves open are the rows."""
        shapes = {name: self._inputs[name].shape for name in self._settings.state}
        sizes = {
            name: [size if isinstance(size, int) else num_rows for size in shape] for name, shape in shapes.items()
        }
        return {name: np.zeros(shape, _DTYPES[self._inputs[name].type]) for name, shape in sizes.items()}

    def _constants(self) -> dict[str, Array]:
        return {name: self._constant(name, value) for name, value in self._settings.constants.items()}

    def _constant(self, name: str, value: float) -> Array:
        facts = self._inputs[name]
        return np.full([1] * len(facts.shape), value, _DTYPES[facts.type])


def _of_width(output: EncoderOutput, values: Array) -> Tensor:
    """The values of a row, (T, K); T = 1 for a vector. Axes of one number do not count."""
    width, axes = output.width, [size for size in values.shape if size != 1]
    if len(axes) > output.has_time + (width > 1) or (width > 1 and axes[-1:] != [width]):
        raise BuildError(
            f"encoder onnx: output {output.name!r} has the shape {values.shape}, expected "
            f"{(*('T' * output.has_time), width)}; correct its dim or num_codebooks, or transpose it in the model"
        )
    return torch.from_numpy(values.reshape(-1, width))
