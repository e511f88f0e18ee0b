"""The report in headless Chromium: no error, no request, every control works, names are text, phones fit."""

import pytest
from report_fixture import BREAKOUT, HOSTILE, digits_results
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait


def find(browser, selector: str):
    return browser.find_element(By.CSS_SELECTOR, selector)


def texts(browser, selector: str) -> list[str]:
    return [element.text for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def hidden_text(browser, selector: str) -> str:
    return browser.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def hover(browser, selector: str, x: float = 0.5, y: float = 0.5) -> str:
    chart = find(browser, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    box = chart.rect
    moves = ActionChains(browser, duration=20)
    moves.move_to_element_with_offset(chart, int((x - 0.5) * box["width"]), int((y - 0.5) * box["height"])).perform()
    tip = chart.find_element(By.XPATH, "../div[@class='tip']")
    WebDriverWait(browser, 5).until(lambda _: tip.is_displayed())
    return tip.text


@pytest.mark.parametrize("name", ["plain", "grouped", "hostile", "bare", "empty"])
@pytest.mark.parametrize("width", [1280, 390, 360])
def test_opens_without_error_request_or_sideways_scrolling(visit, name, width):
    browser = visit(name, width)
    wide, room = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room
    assert find(browser, "h1").text
    if name not in ("empty",):
        assert browser.find_elements(By.CSS_SELECTOR, "#lines svg path.curve")


def test_headline_and_table_show_the_recorded_numbers(visit):
    browser = visit("plain")
    summary = {line.calibrator: line for line in digits_results().summary()}
    ratios = {line.calibrator: line for line in digits_results().ratios()}
    assert f"{ratios['irm-p'].under_shift_to_ts:.2f} × that of temperature scaling" in find(browser, "h1").text
    table_rows = find(browser, "#summary tbody").find_elements(By.TAG_NAME, "tr")
    rows = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in table_rows]
    assert len(rows) == 5
    shown = {row[0].splitlines()[0]: row for row in rows}
    assert f"{summary['base'].mean_ece:.3f}" in shown["Base"][2]
    assert "null ECE" in shown["Base"][1]
    assert shown["Base"][4] == f"{ratios['base'].in_domain_to_ts:.2f}"
    assert shown["Base"][5] == f"{ratios['base'].under_shift_to_ts:.2f}"
    assert "per-sample" in shown["TS"][0]
    assert "[" in shown["Base"][1]


def test_table_sorts_by_click_and_by_key(visit):
    browser = visit("plain")

    def column(position: int) -> list[float]:
        cells = browser.find_elements(By.CSS_SELECTOR, f"#summary tbody td:nth-child({position}) > span")
        return [float(cell.text.split()[0]) for cell in cells]

    assert column(3) == sorted(column(3))
    find(browser, "#summary [data-key=in_domain_ece]").click()
    assert column(2) == sorted(column(2))
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert column(2) == sorted(column(2), reverse=True)
    assert find(browser, "#summary [aria-sort]").get_attribute("aria-sort") == "descending"


def test_selectors_change_the_charts(visit):
    browser = visit("plain")
    captions = set()
    for metric in ("ece", "accuracy", "confidence", "entropy", "nll", "brier", "calibration_gap"):
        Select(find(browser, "#metric")).select_by_value(metric)
        captions.add((find(browser, "#lines figcaption").text, find(browser, "#bars figcaption").text))
    assert len(captions) == 7
    Select(find(browser, "#shift")).select_by_visible_text("enlarged (xyzoom)")
    assert "xyzoom" in find(browser, "#lines figcaption").text
    assert "×0.5" in texts(browser, "#lines svg text")
    lines = len(browser.find_elements(By.CSS_SELECTOR, "#lines path.curve"))
    browser.find_elements(By.CSS_SELECTOR, "#chips input")[3].click()  # IRM
    assert len(browser.find_elements(By.CSS_SELECTOR, "#lines path.curve")) == lines + 1
    assert len(browser.find_elements(By.CSS_SELECTOR, "#histograms figure")) == lines + 1
    for position in range(5):
        box = browser.find_elements(By.CSS_SELECTOR, "#chips input")[position]
        if box.is_selected():
            box.click()
    assert not find(browser, "#lines").is_displayed()
    find(browser, "#quick button").click()
    assert find(browser, "#lines").is_displayed()


def test_reliability_follows_calibrator_shift_and_level(visit):
    browser = visit("plain")
    Select(find(browser, "#calibrator")).select_by_visible_text("TS")
    Select(find(browser, "#shift-one")).select_by_visible_text("turned right (rot_right)")
    Select(find(browser, "#level")).select_by_visible_text("90°")
    row = digits_results().row("ts", "rot_right", 9)
    caption = find(browser, "#shifted figcaption").text
    assert "turned right, 90°: TS" in caption
    assert f"ECE {row.ece:.3f}" in caption
    assert "over-confident" in caption
    assert "In domain: TS" in find(browser, "#clean figcaption").text
    assert "turned right (rot_right) at 90°" in find(browser, "#distribution-lead").text


def test_hovering_shows_values_with_intervals(visit):
    browser = visit("plain")
    assert "shifts" in hover(browser, "#lines svg", 0.99)
    Select(find(browser, "#shift")).select_by_visible_text("turned right (rot_right)")
    tip = hover(browser, "#lines svg", 0.98)
    row = digits_results().row("irm-p", "rot_right", 9)
    low, high = row.intervals["ece"]
    assert "turned right: 90°" in tip
    assert f"{row.ece:.3f}" in tip
    assert f"[{low:.3f}, {high:.3f}]" in tip
    assert "moved down and right" in hover(browser, "#bars svg", 0.5, 0.45)
    assert "accuracy" in hover(browser, "#shifted svg", 0.9)
    assert "share of samples" in hover(browser, "#histograms svg", 0.9)
    assert "target" in hover(browser, "#tuning-chart svg", 0.5)
    assert "in domain" in hover(browser, "#trade svg", 0.1, 0.1)


def test_a_tap_shows_values_too(visit):
    browser = visit("plain", 390)
    chart = find(browser, "#lines svg")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    finger = ActionBuilder(browser, mouse=PointerInput("touch", "finger"))
    finger.pointer_action.move_to(chart, 100, 0).pointer_down().pointer_up()
    finger.perform()
    assert "IRM-P" in find(browser, "#lines .tip").text


def test_everything_is_reached_and_read_by_keyboard(visit):
    browser = visit("plain")
    charts = {f"{name} svg" for name in ("trade", "lines", "bars", "clean", "shifted", "tuning-chart")}
    expected = charts | {"theme", "shift", "metric", "calibrator", "shift-one", "level", "copy"}
    reached = set()
    for _ in range(120):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        name = browser.execute_script(
            "const e = document.activeElement, f = e.closest('figure');"
            "return e.id || (f ? f.id + ' ' + e.tagName.toLowerCase() : e.tagName)"
        )
        reached.add(name)
        if name == "lines svg":
            element = browser.switch_to.active_element
            element.send_keys(Keys.END)
            spoken = hidden_text(browser, "#lines [aria-live]")
            assert "IRM-P" in spoken
            element.send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
            assert hidden_text(browser, "#lines [aria-live]") != spoken
            element.send_keys(Keys.ESCAPE)
            assert not find(browser, "#lines .tip").is_displayed()
        if expected <= reached:
            break
    assert expected <= reached


def test_every_chart_has_a_label_and_a_table(visit):
    browser = visit("grouped")
    figures = [f for f in browser.find_elements(By.CSS_SELECTOR, "figure") if f.is_displayed()]
    assert len(figures) >= 9
    for figure in figures:
        chart = figure.find_element(By.CSS_SELECTOR, ".plot > svg")
        assert chart.get_attribute("role") == "img"
        assert len(chart.get_attribute("aria-label")) > 30
        assert figure.find_elements(By.CSS_SELECTOR, "details table tbody tr")
    assert find(browser, "html").get_attribute("lang") == "en"
    assert browser.execute_script(
        "return [...document.querySelectorAll('select, input')].every(e => e.labels.length && e.labels[0].textContent.trim())"
    )


def test_groups_can_be_chosen(visit):
    browser = visit("grouped")
    assert "digit 2" in texts(browser, "#groups svg text")
    Select(find(browser, "#group")).select_by_visible_text("digit 2")
    expected = next(s for s in digits_results(grouped=True).summary("digit 2") if s.calibrator == "base")
    shown = hidden_text(browser, "#summary tbody")
    assert f"{expected.mean_ece:.3f}" in shown
    browser = visit("plain")
    assert not find(browser, "#group-field").is_displayed()
    assert not find(browser, "#groups").is_displayed()


def test_hostile_names_are_text_everywhere(visit):
    browser = visit("hostile")
    assert not browser.find_elements(By.CSS_SELECTOR, "img, main b, main script")
    for selector in ("#summary", "#chips", "#shift", "#group", "#calibrator", "#tuning-lead"):
        assert HOSTILE in hidden_text(browser, selector) or BREAKOUT in hidden_text(browser, selector), selector
    assert HOSTILE in hidden_text(browser, "#provenance")
    assert HOSTILE in browser.title
    for position in range(len(browser.find_elements(By.CSS_SELECTOR, "#group option"))):
        Select(find(browser, "#group")).select_by_index(position)
    assert HOSTILE in hover(browser, "#lines svg", 0.98)
    assert browser.execute_script("return document.querySelectorAll('script').length") == 2


def test_policy_blocks_injected_scripts_and_requests(browser, pages):
    browser.get(pages["plain"].as_uri())
    blocked = browser.execute_async_script(
        """
        const done = arguments[0], violations = [];
        addEventListener("securitypolicyviolation", event => {
          violations.push(event.effectiveDirective);
          if (violations.length === 3) done(violations.sort());
        });
        const image = document.createElement("img"), script = document.createElement("script");
        image.src = "https://127.0.0.1:9/pixel.png";
        script.textContent = "window.smuggled = true";
        document.body.append(image, script);
        fetch("https://127.0.0.1:9/").catch(() => {});
        """
    )
    assert blocked == ["connect-src", "img-src", "script-src-elem"]
    assert not browser.execute_script("return window.smuggled")


def test_colours_follow_the_system_and_the_button(visit):
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser = visit("plain", scheme="dark")
    dark = browser.execute_script(ground)
    find(browser, "#theme").click()
    light = browser.execute_script(ground)
    assert dark != light
    browser.refresh()
    assert browser.execute_script(ground) == light  # the choice is stored
    browser.execute_script("localStorage.clear()")
    browser = visit("plain", scheme="light")
    assert browser.execute_script(ground) == light


def test_command_is_copied(visit):
    browser = visit("plain")
    find(browser, "#copy").click()
    WebDriverWait(browser, 5).until(lambda _: find(browser, "#copy").text in ("Copied", "Selected"))
    assert browser.execute_script("return getSelection().toString()").startswith("driftcal evaluate")


def test_prints_in_light_with_charts(visit):
    browser = visit("plain", scheme="dark")
    printed = browser.print_page()
    assert len(printed) > 20_000
    assert browser.find_elements(By.CSS_SELECTOR, "#lines svg path.curve")


def test_without_script_the_numbers_are_there(visit):
    visit("plain")  # starts the browser's logs
    browser = visit("plain")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        assert f"{digits_results().summary()[0].mean_ece:.3f}" in find(browser, "noscript, main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
