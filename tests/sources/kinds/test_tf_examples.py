"""`tf.train.Example` without TensorFlow, beside protobuf's own parser."""

import math
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sources.kinds.tf_examples import features_of
from tests.support.tfrecords import example, field, varint

INTS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5)
FLOATS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5)
BYTES = st.lists(st.binary(max_size=20), max_size=5)


def values_of(data, feature):
    texts = feature.form == "bytes"
    return [data[slice(*value)] if texts else value for value in feature.values]


@given(st.dictionaries(st.text(max_size=5), INTS | FLOATS | BYTES, max_size=5), st.booleans())
def test_features_are_read_as_they_were_written(features, packed):
    data = example(features, packed=packed)
    found = {name: values_of(data, feature) for name, feature in features_of(data, 100).items()}
    assert found == features


@given(st.binary(max_size=60))
def test_other_bytes_are_an_error_or_features_within_the_data(data):
    try:
        found = features_of(data, 100)
    except ValueError:
        return
    spans = [span for feature in found.values() if feature.form == "bytes" for span in feature.values]
    assert all(0 <= start <= stop <= len(data) for start, stop in spans)


@given(st.dictionaries(st.text(max_size=5), INTS | FLOATS | BYTES, max_size=3), st.data())
def test_a_damaged_example_is_an_error_or_features(features, data):
    blob = bytearray(example(features))
    for _ in range(3):
        if blob:
            blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    try:
        features_of(bytes(blob), 100)
    except ValueError:
        return


def test_lists_of_more_values_are_not_parsed():
    for values in ([1.0] * 101, [1] * 101, [b"a"] * 101):
        for packed in (True, False):
            (feature,) = features_of(example({"a": values}, packed=packed), 100).values()
            assert (feature.is_long, feature.values) == (True, ())


@pytest.mark.parametrize(
    "data",
    [
        field(1, field(1, field(2, field(1, b"\x0a\x7f")))),  # a value that ends behind the message
        field(1, b"\x0b"),  # a group
        field(1, b"\xff" * 11),  # a number that does not end
        field(1, field(1, field(1, b"a") + field(2, field(2, field(1, b"abc"))))),  # three quarters of a float
        varint(1 << 3 | 2) + varint(1 << 62),
        field(1, field(1, field(1, b"\xff"))),  # a name that is no text
    ],
)
def test_damage_is_an_error(data):
    with pytest.raises(ValueError, match=r"field|number|float|utf-8"):
        features_of(data, 100)


@pytest.mark.medium
@pytest.mark.parametrize(
    "written",
    [
        lambda: example({"a": [b""] * 500_000}),
        lambda: field(1, field(1, field(1, b"a") * 300_000)),  # many names of one feature
        lambda: field(1, b"".join(field(1, field(1, b"%d" % at)) for at in range(1000)) + field(1, b"") * 100_000),
    ],
)
def test_what_is_parsed_takes_little_memory_whatever_an_example_has(written):
    data = written()
    tracemalloc.start()
    try:
        with suppress(ValueError):
            features_of(data, 100)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_example_has_at_most_1000_features():
    assert len(features_of(example({str(number): [1] for number in range(1000)}), 100)) == 1000
    with pytest.raises(ValueError, match="more than 1000 features"):
        features_of(example({str(number): [1] for number in range(1001)}), 100)


def test_an_example_of_protobufs_own_writer_is_read():
    pb = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    file = pb.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    kinds = {"BytesList": "TYPE_BYTES", "FloatList": "TYPE_FLOAT", "Int64List": "TYPE_INT64"}
    for name, kind in kinds.items():
        values = file.message_type.add(name=name).field.add(name="value", number=1)
        values.type, values.label = getattr(values, kind), values.LABEL_REPEATED
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(kinds, 1):
        one = feature.field.add(name=name.lower(), number=number, type_name=f".t.{name}", oneof_index=0)
        one.type, one.label = one.TYPE_MESSAGE, one.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Feature"))
    written = {
        "a": made(byteslist={"value": [b"x", b"yy"]}),
        "b": made(floatlist={"value": [0.5, -math.inf]}),
        "c": made(int64list={"value": [-1, 2**40]}),
        "d": made(),
    }
    entries = [field(1, field(1, name.encode()) + field(2, one.SerializeToString())) for name, one in written.items()]
    data = field(1, b"".join(entries))
    found = {name: (one.form, values_of(data, one)) for name, one in features_of(data, 100).items()}
    assert found == {
        "a": ("bytes", [b"x", b"yy"]), "b": ("float", [0.5, -math.inf]), "c": ("int", [-1, 2**40]), "d": ("", []),
    }  # fmt: skip
