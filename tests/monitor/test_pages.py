"""What a monitor writes for others: a timeline page and Prometheus' text, whatever names are in them."""

import re
from html.parser import HTMLParser

import pytest

from driftcal.monitor.monitor import Monitor
from driftcal.monitor.prometheus import prometheus_text
from driftcal.report.timeline import timeline_html, write_timeline

HOSTILE = ["</script><script>alert(1)</script>", 'a"b\\c\nd', "<img src=x onerror=alert(1)>"]


@pytest.fixture(scope="module")
def month(world):
    monitor = world.monitor(every=100)
    for i, noise in enumerate((1.0, 2.2, 20.0, 1.0)):
        logits, y = world.sample(300, noise, seed=i)
        monitor.update(logits, y=y if i % 2 else None)
    monitor.update([[float("nan")] * 3])
    return [w.to_dict() for w in monitor.windows()], monitor.summary().to_dict()


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "rect", "circle", "polyline", "polygon"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(month, tmp_path):
    page = write_timeline(*month, tmp_path / "deep" / "t.html", title="A <b>month</b>", class_names=HOSTILE).read_text()
    tags = Tags()
    tags.feed(page)
    names = [tag for tag, _ in tags.found]
    assert {"script", "img", "link", "iframe", "object"}.isdisjoint(names)
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in tags.found for name in attrs)
    assert names.count("svg") == 3
    assert "A &lt;b&gt;month&lt;/b&gt;" in page
    assert "1 row" in page or "not finite: 1" in page
    assert page == timeline_html(*month, title="A <b>month</b>", class_names=HOSTILE)


def test_the_chart_shows_every_window_and_its_state(month):
    page = timeline_html(*month, title="m")
    states = [w["state"] for w in month[0]]
    assert len(states) == 12
    for state in set(states):
        assert page.count(f'<rect class="s-{state.replace(" ", "-")}"') == states.count(state)
    assert page.count("<circle") == sum(w["labelled"] is not None for w in month[0])


def test_an_empty_monitor_and_one_without_profile_have_a_page(world):
    monitor = Monitor(world.calibrator)
    for _ in range(2):
        page = timeline_html([w.to_dict() for w in monitor.windows()], monitor.summary().to_dict(), title="bare")
        assert "Nothing can be told" in page
        monitor.update(world.sample(10)[0])


def test_prometheus_text_is_well_formed(month):
    text = prometheus_text(*month, HOSTILE)
    assert text.endswith("\n")
    sample = re.compile(r'^driftcal_[a-z_]+(\{[a-z]+="(\\.|[^"\\\n])*"\})? (-?[0-9.e+-]+|NaN|[+-]Inf)$')
    typed = set()
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            assert sample.match(line), line
            assert re.split(r"[{ ]", line)[0] in typed
    assert 'driftcal_rejected_rows_total{reason="not finite"} 1.0' in text
    assert 'driftcal_state{state="ok"} 1.0' in text
    assert 'class="a\\"b\\\\c\\nd"' in text
    assert "driftcal_true_accuracy" in text
