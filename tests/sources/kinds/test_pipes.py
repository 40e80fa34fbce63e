"""Commands in `wav.scp`: which are read as a file, and which are rejected."""

import pytest

from headrace.sources.kinds.pipes import parsed_pipe

ACCEPTED = {
    "flac -c -d -s /d/a.flac |": ("/d/a.flac", None),
    "flac -cds a.flac|": ("a.flac", None),
    "/usr/bin/flac --stdout --decode 'with space.flac' |": ("with space.flac", None),
    "cat a.wav |": ("a.wav", None),
    "sox a.mp3 -t wav - |": ("a.mp3", None),
    "sox -t mp3 a.mp3 -t wav -b 16 -e signed-integer - |": ("a.mp3", None),
    "sph2pipe -f wav -p -c 1 a.sph |": ("a.sph", 0),
    "/opt/sph2pipe_v2.5/sph2pipe -f wav -p -c 2 /d/a.sph |": ("/d/a.sph", 1),
    "sph2pipe -f wav a.sph |": ("a.sph", None),
    "ffmpeg -i a.m4a -f wav - |": ("a.m4a", None),
    "ffmpeg -loglevel error -nostdin -i a.opus -f wav -acodec pcm_s16le pipe:1 |": ("a.opus", None),
}
REJECTED = [
    "|",
    "rm -rf / |",
    "cat a.wav b.wav |",
    "cat a.wav | sox - -t wav - |",
    "cat a.wav; rm b |",
    "cat $HOME/a.wav |",
    "cat `ls` |",
    "cat a.wav > b |",
    "cat 'a.wav |",
    "cat -n a.wav |",
    "cat |",
    "flac -s a.flac |",
    "flac -d -c --skip=100 a.flac |",
    "flac -d -c a.flac b.flac |",
    "sox a.wav -t wav -r 16000 - |",
    "sox a.wav -t wav -c 1 - |",
    "sox a.wav -t wav - speed 0.9 |",
    "sox a.wav -t wav - trim 0 1 |",
    "sox a.wav b.wav |",
    "sox -t wav - -t wav - |",
    "sox -v 0.5 a.wav -t wav - |",
    "sph2pipe -f wav -p -c 3 a.sph |",
    "sph2pipe -f wav -t 0:1 a.sph |",
    "sph2pipe -f wav -p -c |",
    "ffmpeg -i a.mp4 -ar 16000 -f wav - |",
    "ffmpeg -ss 3 -i a.mp4 -f wav - |",
    "ffmpeg -i a.mp4 -af volume=2 -f wav - |",
    "ffmpeg -i a.mp4 -i b.mp4 -f wav - |",
    "ffmpeg -i a.mp4 out.wav |",
    "ffmpeg a.mp4 -f wav - |",
    "python make.py |",
]


@pytest.mark.parametrize(("command", "expected"), ACCEPTED.items())
def test_a_command_that_only_decodes_is_its_file(command, expected):
    assert parsed_pipe(command)[:2] == expected
    assert not parsed_pipe(command).fault


@pytest.mark.parametrize("command", REJECTED)
def test_any_other_command_is_rejected_with_a_reason(command):
    found = parsed_pipe(command)
    assert not found.path
    assert "commands are not run" in found.fault
