"""Tiny ONNX models in `tests/golden`.

To write them again: `pip install onnx`, `python -m tests.support.onnx_models`.
`whole.onnx` takes rows of any length. `chunked.onnx` takes 200 PCM frames at a time, and its state decays by half.
`speech.onnx` has the form of silero's, and its states count its calls. `quality.onnx` has the form of DNSMOS.
"""

from pathlib import Path
from typing import Any

WHOLE, CHUNKED = Path("tests/golden/whole.onnx"), Path("tests/golden/chunked.onnx")
SPEECH, QUALITY = Path("tests/golden/speech.onnx"), Path("tests/golden/quality.onnx")


def _model(nodes: list[Any], inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> bytes:
    from onnx import TensorProto, helper

    def infos(named: dict[str, list[Any]]) -> list[Any]:
        kinds = {"codes": TensorProto.INT64}
        return [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), shape) for n, shape in named.items()]

    values = {"one": (TensorProto.INT64, [1]), "half": (TensorProto.FLOAT, [0.5]), "low": (TensorProto.FLOAT, [0.1])}
    values |= {"unit": (TensorProto.FLOAT, [1.0]), "scores": (TensorProto.FLOAT, [1.0, 2.0, 3.0])}
    used = {name for node in nodes for name in node.input}
    made = {name: helper.make_tensor(name, kind, [len(value)], value) for name, (kind, value) in values.items()}
    constants = [tensor for name, tensor in made.items() if name in used]
    graph = helper.make_graph(nodes, "model", infos(inputs), infos(outputs), constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(model.SerializeToString())


def write() -> None:
    """Write the models."""
    from onnx import TensorProto, helper

    node = helper.make_node
    whole = [
        node("Abs", ["audio"], ["size"]),
        node("ReduceMean", ["size", "one"], ["level"], keepdims=1),
        node("Unsqueeze", ["size", "one"], ["channels"]),
        node("MaxPool", ["channels"], ["peaks"], kernel_shape=[160], strides=[160]),
        node("Greater", ["peaks", "low"], ["is_loud"]),
        node("Cast", ["is_loud"], ["codes"], to=TensorProto.INT64),
    ]
    time = ["rows", 1, "steps"]
    outputs = {"level": ["rows", 1], "peaks": time, "codes": time}
    WHOLE.write_bytes(_model(whole, {"audio": ["rows", "frames"]}, outputs))
    chunked = [
        node("Abs", ["audio"], ["size"]),
        node("ReduceMean", ["size", "one"], ["mean"], keepdims=1),
        node("Mul", ["mean", "gain"], ["loud"]),
        node("Mul", ["state", "half"], ["kept"]),
        node("Add", ["kept", "loud"], ["next"]),
        node("Identity", ["next"], ["level"]),
    ]
    CHUNKED.write_bytes(
        _model(
            chunked,
            {"audio": ["rows", 200], "state": ["rows", 1], "gain": [1]},
            {"level": ["rows", 1], "next": ["rows", 1]},
        )
    )
    speech = [
        node("Abs", ["input"], ["size"]),
        node("ReduceMax", ["size", "one"], ["loudest"], keepdims=0),
        node("Add", ["h", "unit"], ["hn"]),
        node("Add", ["c", "unit"], ["cn"]),
        node("ReduceMean", ["hn"], ["calls"], keepdims=0),
        node("Div", ["loudest", "calls"], ["probabilities"]),
    ]
    states = [1, 1, 128]
    SPEECH.write_bytes(
        _model(
            speech,
            {"input": ["chunks", 576], "h": states, "c": states},
            {"probabilities": ["chunks"], "hn": states, "cn": states},
        )
    )
    quality = [
        node("Abs", ["input"], ["size"]),
        node("ReduceMean", ["size", "one"], ["level"], keepdims=1),
        node("Mul", ["level", "scores"], ["raw"]),
    ]
    QUALITY.write_bytes(_model(quality, {"input": ["segments", 144_160]}, {"raw": ["segments", 3]}))


if __name__ == "__main__":
    write()
