"""A linear classifier of 8×8 images as an ONNX file, and labelled images for it."""

import numpy as np


def make_data(path, n, seed, **more):
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    x = rng.random((n, 8, 8, 1), np.float32)
    y = ((x.reshape(n, -1) - 0.5) @ weights).argmax(axis=1)
    wrong = rng.random(n) < 0.2
    y[wrong] = (y[wrong] + 1) % 4
    np.savez(path, x=x, y=y, **{"class_names": ["a", "b", "c", "d"], **more})


def make_onnx(path, weights):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "w"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
