"""A calibrated ONNX model as an MLflow model: log it, serve it, and get calibrated probabilities back.

driftcal export model.onnx cal.safetensors -o calibrated.onnx
python mlflow_pyfunc.py            # needs mlflow and onnxruntime
"""

import mlflow.pyfunc
import numpy as np


class CalibratedClassifier(mlflow.pyfunc.PythonModel):
    """Returns label, confidence and all probabilities for a batch of preprocessed inputs."""

    def load_context(self, context):
        import onnxruntime

        self.session = onnxruntime.InferenceSession(context.artifacts["model"], providers=["CPUExecutionProvider"])

    def predict(self, context, model_input, params=None):
        batch = np.asarray(model_input, np.float32)
        names = ["label", "confidence", "probabilities"]
        outputs = self.session.run(names, {self.session.get_inputs()[0].name: batch})
        return {name: output.tolist() for name, output in zip(names, outputs, strict=True)}


if __name__ == "__main__":
    import mlflow

    with mlflow.start_run():
        # the calibrator file records the method, the perturbation levels and the fingerprint of the model
        mlflow.log_artifact("cal.safetensors")
        mlflow.pyfunc.log_model(
            name="calibrated",
            python_model=CalibratedClassifier(),
            artifacts={"model": "calibrated.onnx"},
            pip_requirements=["onnxruntime", "numpy"],
        )
