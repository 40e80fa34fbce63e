"""Sizes of the demo's recordings in each codec: `python benchmarks/codec_sizes.py [FOLDER]`.

Every recording of a folder (by default the demo's) is encoded whole in its own rate and channels as FLAC, kept as it is
(`copy`), and encoded as Opus at 48 kHz. Then the same with lossy sources: the recordings as MP3 and Ogg Vorbis, made by
libsndfile. Prints bytes of audio, and writes `results/codec_sizes.json`.
"""

import io
import json
import sys
from pathlib import Path

import soundfile as sf

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from headrace.audio import AudioFormat, Codec, encode_segments, plan_segments, probe  # noqa: E402

FORMATS = {
    "flac": AudioFormat(),
    "copy": AudioFormat(codec=Codec.COPY),
    "opus, 64 kbit/s for each channel": AudioFormat(codec=Codec.OPUS, sample_rate_hz=48_000),
    "opus, 32 kbit/s for each channel": AudioFormat(codec=Codec.OPUS, sample_rate_hz=48_000, bitrate=32_000),
}


def size(blob: bytes, wanted: AudioFormat) -> int:
    """Bytes of a recording in a format."""
    info = probe(io.BytesIO(blob), num_bytes=len(blob))
    segments = plan_segments(info.num_frames, info.sample_rate_hz, wanted)
    return sum(sample.num_bytes for sample in encode_segments(io.BytesIO(blob), info, wanted, segments))


def converted(blob: bytes, container: str, subtype: str) -> bytes:
    """A recording in another format of libsndfile."""
    samples, rate = sf.read(io.BytesIO(blob))
    file = io.BytesIO()
    sf.write(file, samples, rate, format=container, subtype=subtype)
    return file.getvalue()


def main() -> None:
    """Run the benchmark."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "datasets/demo/recordings"
    originals = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    sources = {
        "as they are": originals,
        "as MP3": [converted(blob, "MP3", "MPEG_LAYER_III") for blob in originals],
        "as Ogg Vorbis": [converted(blob, "OGG", "VORBIS") for blob in originals],
    }
    results = {}
    for name, blobs in sources.items():
        found = {"source": sum(map(len, blobs))}
        found |= {codec: sum(size(blob, wanted) for blob in blobs) for codec, wanted in FORMATS.items()}
        results[name] = found
        print(f"{name}: " + ", ".join(f"{codec} {count / 1e6:.2f} MB" for codec, count in found.items()))
    path = ROOT / "benchmarks/results/codec_sizes.json"
    path.write_text(json.dumps({"recordings": len(originals), "bytes": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
