"""Two tiny ONNX models in `tests/golden`.

To write them again: `pip install onnx`, `python -m tests.support.onnx_models`.
`whole.onnx` takes rows of any length. `chunked.onnx` takes 200 PCM frames at a time, and its state decays by half.
"""

from pathlib import Path
from typing import Any

WHOLE, CHUNKED = Path("tests/golden/whole.onnx"), Path("tests/golden/chunked.onnx")


def _model(nodes: list[Any], inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> bytes:
    from onnx import TensorProto, helper

    def infos(named: dict[str, list[Any]]) -> list[Any]:
        kinds = {"codes": TensorProto.INT64}
        return [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), shape) for n, shape in named.items()]

    values = {"one": (TensorProto.INT64, [1]), "half": (TensorProto.FLOAT, [0.5]), "low": (TensorProto.FLOAT, [0.1])}
    constants = [helper.make_tensor(name, kind, [1], value) for name, (kind, value) in values.items()]
    graph = helper.make_graph(nodes, "model", infos(inputs), infos(outputs), constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(model.SerializeToString())


def write() -> None:
    """Write both models."""
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


if __name__ == "__main__":
    write()
