"""Calibration while a model trains with transformers' Trainer, in constant memory: batch_eval_metrics=True."""

import torch
from sklearn.datasets import load_digits
from transformers import Trainer, TrainingArguments

from driftcal.integrations.torchmetrics import CalibrationMetrics


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def forward(self, pixels, labels):
        logits = self.layers(pixels)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


calibration = CalibrationMetrics()


def compute_metrics(prediction, compute_result):
    calibration.update(prediction.predictions, prediction.label_ids)
    if not compute_result:
        return {}
    found = {name: value.item() for name, value in calibration.compute().items()}
    calibration.reset()
    return found


images, labels = load_digits(return_X_y=True)
samples = [
    {"pixels": torch.tensor(x / 16, dtype=torch.float32), "labels": int(y)} for x, y in zip(images, labels, strict=True)
]
arguments = TrainingArguments(
    "trainer",
    num_train_epochs=6,
    per_device_train_batch_size=64,
    learning_rate=2e-2,
    batch_eval_metrics=True,
    report_to="none",
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
    seed=0,
)
trainer = Trainer(
    Net(), arguments, train_dataset=samples[:1000], eval_dataset=samples[1000:], compute_metrics=compute_metrics
)
trainer.train()
print({name: round(value, 3) for name, value in trainer.evaluate().items() if name != "epoch"})
