"""A Keras 3 model that ends in softmax: outputs="probabilities" makes logits of its log-probabilities."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras

import driftcal

keras.utils.set_random_seed(0)
train, validation, test = driftcal.open_source("digits").split(800, 500, random_state=0)
dense = keras.layers.Dense
net = keras.Sequential([keras.layers.Flatten(), dense(64, activation="relu"), dense(10, activation="softmax")])
net.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy")
net.fit(train.inputs(), train.labels, batch_size=100, epochs=15, verbose=0)

model = driftcal.open_model(net, outputs="probabilities")
calibrated = driftcal.tune(model, validation)
print(calibrated.explanation)
for line in driftcal.evaluate(calibrated, test).summary():
    print(f"{line.calibrator:9} ECE in domain {line.in_domain_ece:.3f}, under shift {line.mean_ece:.3f}")
