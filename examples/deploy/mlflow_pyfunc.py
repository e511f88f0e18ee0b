"""A calibrated ONNX model as an MLflow model. MLflow stores this file, no pickle ("models from code").

driftcal export model.onnx cal.safetensors -o calibrated.onnx
python -c "import mlflow; mlflow.pyfunc.log_model(name='calibrated', python_model='mlflow_pyfunc.py',
           artifacts={'model': 'calibrated.onnx'}, pip_requirements=['onnxruntime', 'numpy'])"
"""

import mlflow
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


mlflow.models.set_model(CalibratedClassifier())
