"""Recordings in the forms that need the extra `av`, written with it."""

import io

import numpy as np


def libav_file(form: str, codec: str, sound: np.ndarray, rate_hz: int, **options: str) -> bytes:
    """A file of a form (`mp4`, `webm`, `matroska`, `asf`) with float samples (frames, channels) in a codec of libav."""
    import av

    file = io.BytesIO()
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[sound.shape[1]]
    with av.open(file, "w", format=form, options=options) as container:
        stream = container.add_stream(codec, rate=rate_hz, layout=layout)
        is_whole = codec == "alac"
        stream.format = {"alac": "s16p", "libopus": "flt"}.get(codec, "fltp")
        if not is_whole:
            stream.bit_rate = 128_000
        whole = np.round(sound * 32768).astype(np.int16) if is_whole else sound.astype(np.float32)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(whole.T), "s16p" if is_whole else "fltp", layout)
        frame.sample_rate = rate_hz
        frame.pts = 0
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return file.getvalue()
