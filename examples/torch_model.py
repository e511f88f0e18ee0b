"""A torch network: any nn.Module that returns logits."""

import torch

import driftcal

torch.manual_seed(0)
train, validation, test = driftcal.open_source("digits").split(800, 500, random_state=0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
x, y = torch.from_numpy(train.inputs()).permute(0, 3, 1, 2), torch.from_numpy(train.labels)
optimiser = torch.optim.Adam(net.parameters(), 0.01)
for _ in range(150):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimiser.step()

calibrated = driftcal.tune(net, validation, method="irm")  # layout NCHW is torch's usual one
print(calibrated.predict_proba(test.inputs()[:3]).round(3))
for line in driftcal.evaluate(calibrated, test).summary():
    print(f"{line.calibrator:9} ECE in domain {line.in_domain_ece:.3f}, under shift {line.mean_ece:.3f}")
