"""Prometheus' text format, with any names in it."""

import re

import pytest

from driftcal.monitor.serving.service import MonitorService

HOSTILE = ["</script><script>alert(1)</script>", 'a"b\\c\nd', "<img src=x onerror=alert(1)>"]


@pytest.fixture
def text(scenario):
    monitor = scenario.monitor(window_size=100, class_names=HOSTILE)
    for i, noise in enumerate((1.0, 2.2, 20.0, 1.0)):
        logits, y = scenario.sample(300, noise, seed=i)
        monitor.update(logits, y=y if i % 2 else None)
    monitor.update([[float("nan")] * 3])
    return MonitorService(monitor).prometheus_text()


def test_the_text_is_well_formed(text):
    assert text.endswith("\n")
    sample = re.compile(r'^driftcal_[a-z_]+(\{[a-z]+="(\\.|[^"\\\n])*"\})? (-?[0-9.e+-]+|NaN|[+-]Inf)$')
    typed = set()
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            assert sample.match(line), line
            assert re.split(r"[{ ]", line)[0] in typed


def test_it_holds_the_counters_and_the_newest_window(text):
    assert "driftcal_samples_total 1200.0" in text
    assert 'driftcal_rejected_samples_total{reason="not finite"} 1.0' in text
    assert 'driftcal_state{state="ok"} 1.0' in text
    assert 'driftcal_windows{state="out of distribution"} 3.0' in text
    assert 'class="a\\"b\\\\c\\nd"' in text
    assert "driftcal_true_accuracy" in text


def test_a_window_that_has_just_begun_is_not_the_newest_one(scenario):
    monitor = scenario.monitor(window_size=500)
    monitor.update(scenario.sample(1007)[0])
    assert "driftcal_window_samples 500.0" in MonitorService(monitor).prometheus_text()


def test_the_labelled_accuracy_of_the_newest_window(scenario):
    monitor = scenario.monitor(window_size=500)
    logits, y = scenario.sample(1000)
    monitor.update(logits[:500], y=y[:500])
    monitor.update(logits[500:], ids=range(500))
    text = MonitorService(monitor).prometheus_text()
    assert "driftcal_window_labelled_samples 0.0" in text
    assert "driftcal_window_true_accuracy" not in text
    wrong = (logits[500:].argmax(axis=1) + 1) % 3
    monitor.add_labels(range(100), wrong[:100])
    text = MonitorService(monitor).prometheus_text()
    assert "driftcal_window_labelled_samples 100.0" in text
    assert "driftcal_window_true_accuracy 0.0" in text
    correct = int((logits[:500].argmax(axis=1) == y[:500]).sum())
    assert f"driftcal_true_accuracy {correct / 600!r}" in text  # all labels since the start
