"""The timeline of a monitor: one page without script, with any names in it."""

from html.parser import HTMLParser

import pytest
from monitor_scenario import MonitorScenario

from driftcal.decisions import Threshold
from driftcal.monitor.monitor import Monitor
from driftcal.report.timeline import timeline_html, write_timeline

HOSTILE = ["</script><script>alert(1)</script>", 'a"b\\c\nd', "<img src=x onerror=alert(1)>"]


@pytest.fixture(scope="module")
def scenario():
    return MonitorScenario()


@pytest.fixture(scope="module")
def monitor(scenario):
    monitor = scenario.monitor(window_size=100, class_names=HOSTILE)
    for i, noise in enumerate((1.0, 2.2, 20.0, 1.0)):
        logits, y = scenario.sample(300, noise, seed=i)
        monitor.update(logits, y=y if i % 2 else None)
    monitor.update([[float("nan")] * 3])
    return monitor


class Tags(HTMLParser):
    """All elements of a page; each must be closed in order."""

    def __init__(self):
        super().__init__()
        self.elements, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "rect", "circle", "polyline", "polygon"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag


def test_the_page_is_complete_and_loads_nothing(monitor, tmp_path):
    page = write_timeline(monitor, tmp_path / "deep" / "t.html", title="A <b>month</b>").read_text()
    tags = Tags()
    tags.feed(page)
    names = [tag for tag, _ in tags.elements]
    assert {"script", "img", "link", "iframe", "object"}.isdisjoint(names)
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in tags.elements for name in attrs)
    assert names.count("svg") == 3
    assert "A &lt;b&gt;month&lt;/b&gt;" in page
    assert "not finite: 1" in page
    assert page == timeline_html(monitor, title="A <b>month</b>")


def test_the_chart_shows_every_window_and_its_state(monitor):
    page = timeline_html(monitor, title="m")
    windows = monitor.windows()
    states = [window.state for window in windows]
    assert len(states) == 12
    for state in set(states):
        assert page.count(f'<rect class="s-{state.replace(" ", "-")}"') == states.count(state)
    assert page.count("<circle") == sum(window.labelled is not None for window in windows)


def test_the_headline_names_states_that_occurred_before_the_newest_window(monitor):
    assert monitor.summary().state == "ok"
    page = timeline_html(monitor, title="m")
    assert (
        "The newest window is like the validation data. Of 12 windows: 3 out of distribution, 3 inputs shifted." in page
    )


def test_a_window_that_has_just_begun_is_not_the_newest_one(scenario):
    monitor = scenario.monitor(window_size=500, class_names="abc")
    monitor.update(scenario.sample(1000, 20.0)[0])
    monitor.update(scenario.sample(7)[0])
    share = monitor.windows()[1].class_shares[0]
    assert f"<td><bdi>a</bdi></td><td>{share:.3f}</td>" in timeline_html(monitor, title="m")


def test_an_empty_monitor_and_one_without_drift_reference_have_a_page(scenario):
    monitor = Monitor(scenario.calibrator)
    for _ in range(2):
        assert "The state of the newest window is unknown." in timeline_html(monitor, title="bare")
        monitor.update(scenario.sample(10)[0])


@pytest.mark.parametrize("width", [1280, 390])
def test_the_reason_and_the_newest_windows_can_be_seen(browser, scenario, tmp_path, width):
    threshold = Threshold(0.8, "coverage", 0.8, 0.8, 0.9, 0.85, 0.05, 3000)
    monitor = Monitor(scenario.windowed(threshold), window_size=100)
    for i, noise in enumerate((1.0, 20.0)):
        monitor.update(scenario.sample(300, noise, seed=i)[0])
    page = write_timeline(monitor, tmp_path / "t.html")
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(page.as_uri())
    edges = """
        const edge = element => element.getBoundingClientRect().right;
        return [...document.querySelectorAll(arguments[0])].map(e => [edge(e), edge(e.closest('.scroll'))])
    """
    of_newest = browser.execute_script(edges, "rect:last-of-type, .timeline")
    assert len(of_newest) == 4
    assert all(right <= frame + 1 for right, frame in of_newest)
    if width == 1280:
        assert all(right <= frame + 1 for right, frame in browser.execute_script(edges, ".windows td:nth-child(4)"))
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
