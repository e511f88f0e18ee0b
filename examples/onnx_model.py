"""An ONNX file: the preprocessing of images in [0, 1] is given once, and saved with the calibrator."""

import numpy as np
import onnx

import driftcal

train, validation, test = driftcal.open_source("digits").split(800, 500, random_state=0)
means = np.stack([train.inputs()[train.labels == digit].mean(axis=0).ravel() for digit in range(10)]) / 0.25
net = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
    nearest_mean (float[n, 1, 8, 8] x) => (float[n, 10] logits) { f = Flatten(x) s = MatMul(f, w) logits = Add(s, b) }""")
for name, value in {"w": means.T, "b": -(means**2).sum(axis=1) / 2}.items():
    net.graph.initializer.append(onnx.numpy_helper.from_array(value.astype(np.float32), name))
onnx.save(net, "net.onnx")  # a stand-in for yours

model = driftcal.open_model("net.onnx", preprocessing={"std": [0.25]})
calibrated = driftcal.tune(model, validation, method="ts")
calibrated.save("calibrator.safetensors")
again = driftcal.CalibratedModel.load("calibrator.safetensors", "net.onnx")  # another model would be refused
for line in driftcal.evaluate(again, test).summary():
    print(f"{line.calibrator:9} ECE in domain {line.in_domain_ece:.3f}, under shift {line.mean_ece:.3f}")
