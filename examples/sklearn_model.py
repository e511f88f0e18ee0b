"""A scikit-learn classifier: tune it, evaluate it under shift, write a report."""

from sklearn.linear_model import LogisticRegression

import driftcal

train, validation, test = driftcal.open_source("digits").split(800, 500, random_state=0)
net = LogisticRegression(C=100, max_iter=2000).fit(train.inputs().reshape(800, -1), train.labels)

calibrated = driftcal.tune(net, validation, method="ets")
calibrated.save("calibrator.safetensors")
results = driftcal.evaluate(calibrated, test, suite="affine")
for line in results.summary():
    print(f"{line.calibrator:9} ECE in domain {line.in_domain_ece:.3f}, under shift {line.mean_ece:.3f}")
print(driftcal.write_report(results, "report.html"))
