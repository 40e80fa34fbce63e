"""Decides in which codec a sample is stored, and how many bytes are planned for it. Pure: no file is opened.

With `codec: copy`, a sample that is a whole recording in the wanted form keeps the recording's own bytes, if loaders
can decode them frame-exactly: MP3, Ogg Opus, Ogg Vorbis, WAV, FLAC. Every other sample is written as FLAC.
"""

from headrace.audio.forms import AudioFormat, AudioInfo, Codec, Segment
from headrace.audio.segments import resampled_length

FLAC_EXTENSION = "flac"
_KEPT = {
    ("MP3", "MPEG_LAYER_III"): "mp3",
    ("OGG", "OPUS"): "opus",
    ("OGG", "VORBIS"): "ogg",
    **{("FLAC", f"PCM_{bits}"): FLAC_EXTENSION for bits in ("S8", "16", "24")},
    **{
        (container, subtype): "wav"
        for container in ("WAV", "WAVEX")
        for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
    },
}
"""Container and subtype, in libsndfile's names, of the recordings whose bytes can be kept → extension of the member."""


def kept_extension(info: AudioInfo, wanted: AudioFormat, segment: Segment) -> str | None:
    """The extension under which a recording's own bytes become this sample; None if the sample has to be encoded.

    The sample must be the whole recording, and its rate, channels and bits as wanted. Lossy and companded codings have
    no bits, so `bits_per_sample` does not concern them.
    """
    is_whole = segment.start_frame == 0 and segment.num_frames == info.num_frames
    is_as_wanted = (
        wanted.output_rate_hz(info.sample_rate_hz) == info.sample_rate_hz
        and wanted.output_channels(info) == info.num_channels
        and wanted.bits_per_sample in {None, info.bits_per_sample or wanted.bits_per_sample}
    )
    if wanted.codec is not Codec.COPY or not (is_whole and is_as_wanted):
        return None
    return _KEPT.get((info.container, info.subtype))


def planned_bytes(info: AudioInfo, wanted: AudioFormat, segment: Segment, source_bytes: int) -> int:
    """The size that is planned for a sample: known without encoding, and never far below what is written.

    Frames times channels times bytes of a sample as written: 2 or 3 for FLAC, the bit rate for Opus. The size of the
    recording, if its bytes are kept.

    Args:
        info: facts of the recording.
        wanted: format in the shard.
        segment: the sample's frames, at the shard's rate.
        source_bytes: size of the recording.
    """
    if kept_extension(info, wanted, segment) is not None:
        return source_bytes
    num_samples = segment.num_frames * wanted.output_channels(info)
    if wanted.codec is Codec.OPUS:
        return resampled_length(num_samples * wanted.opus_bitrate // 8, wanted.output_rate_hz(info.sample_rate_hz), 1)
    return num_samples * (wanted.output_bits(info) // 8)
