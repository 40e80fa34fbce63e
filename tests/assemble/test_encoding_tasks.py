"""The samples of a shard are divided into tasks of one file, in their order."""

from headrace.assemble.encoding_tasks import fields_of, spans_of_passes, tasks_of, tasks_of_fields
from headrace.audio import AudioFormat, Segment
from headrace.catalog.rows.recordings import FieldFile
from tests.support.recordings import recording

AUDIO = AudioFormat()


def segments(of, *starts, seconds=20):
    return [(of, Segment(number, start, seconds * 10)) for number, start in enumerate(starts)]


def keys(tasks):
    return [[(row.key, segment.start_frame) for row, segment in task.samples] for task in tasks]


def test_a_task_has_a_minute_of_one_file():
    a, b = recording("a", 10_000), recording("b", 10_000)
    samples = [*segments(a, 0, 200, 400, 600), *segments(b, 0), *segments(a, 800)]
    tasks = list(tasks_of(samples, AUDIO))
    assert keys(tasks) == [[("a", 0), ("a", 200), ("a", 400)], [("a", 600)], [("b", 0)], [("a", 800)]]
    assert [task.seconds for task in tasks] == [60, 20, 20, 20]
    assert tasks[0].path == "a.wav"


def test_a_task_is_longer_where_each_has_to_decode_from_the_beginning():
    lossy = recording("a", 100_000, subtype="VORBIS")
    assert len(list(tasks_of(segments(lossy, *range(0, 9000, 200)), AUDIO))) == 1
    assert len(list(tasks_of(segments(lossy, *range(0, 9200, 200)), AUDIO))) == 2


def test_segments_of_a_task_are_ascending_and_spans_may_have_any_order():
    assert [len(task.samples) for task in tasks_of(segments(recording(), 20, 0), AUDIO)] == [1, 1]
    spans = [recording(key, path="x.wav", start_frame=at, stop_frame=at + 5) for key, at in (("a", 9), ("b", 3))]
    (task,) = tasks_of([(span, Segment(0, 0, 5)) for span in spans], AUDIO)
    assert task.is_of_spans
    assert not task.is_pass


def test_spans_of_a_file_without_exact_seeks_are_decoded_in_one_pass():
    rows = [
        recording(key, subtype="VORBIS", path="x.ogg", start_frame=start, stop_frame=start + 5)
        for key, start in (("a", 9), ("b", 3))
    ]
    whole = recording("c", subtype="VORBIS")
    tasks = list(tasks_of([*((row, Segment(0, 0, 5)) for row in rows), (whole, Segment(0, 0, 100))], AUDIO))
    assert spans_of_passes(tasks) == {"x.ogg": rows}


def test_each_audio_field_of_a_row_is_a_task_of_its_own_file():
    info = recording().info
    files = tuple(FieldFile(name, f"{name}.wav", "cd" * 32, 7, 1, 1, info) for name in ("mix", "voice"))
    row = recording("a", fields=files, start_frame=2, stop_frame=50)
    assert [(one.key, one.path, one.span.stop_frame, one.fields) for one in fields_of(row)] == [
        ("a.mix", "mix.wav", 50, ()),
        ("a.voice", "voice.wav", 50, ()),
    ]
    (task,) = tasks_of([(row, Segment(0, 0, 48))], AUDIO)
    assert [one.path for one in tasks_of_fields(task)] == ["mix.wav", "voice.wav"]
    (plain,) = tasks_of([(recording("a"), Segment(0, 0, 48))], AUDIO)
    assert tasks_of_fields(plain) == (plain,)
