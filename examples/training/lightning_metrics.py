"""Calibration while a network trains with Lightning: one line in __init__, one per batch, one per epoch."""

import lightning
import torch
from sklearn.datasets import load_digits

from driftcal.integrations.torchmetrics import CalibrationMetrics


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        self.calibration = CalibrationMetrics()

    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.calibration.update(self.layers(batch[0]), batch[1])

    def on_validation_epoch_end(self):
        self.log_dict(self.calibration.compute())  # accuracy, ece, mce, calibration_gap, nll, brier
        self.calibration.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


images, labels = load_digits(return_X_y=True)
data = torch.utils.data.TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
train, val = (
    torch.utils.data.DataLoader(data, batch_size=64, sampler=part) for part in (range(1000), range(1000, 1797))
)
lightning.seed_everything(0)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(Net(), train, val)
print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})
