"""Legends, hatching and labels of the experiments' figures."""

import pytest

from driftcal.paper.figures.draw import DRAWERS
from driftcal.paper.figures.figure_data import Bars, Lines, Panel, Points
from driftcal.shifts.affine import AFFINE, Affine


def legend_of(figure):
    (legend,) = DRAWERS[type(figure)](figure).legends
    return [text.get_text() for text in legend.get_texts()]


def test_the_legend_has_a_column_per_method():
    values = {name: [0.1] for name in ("Base", "TS", "IR", "TS-P", "IR-P")}
    bars = Bars("b", "", "", ["one"], values, "ECE")
    lines = Lines("l", "", "", [Panel("", [0], values, "x", "y")])
    assert legend_of(bars) == legend_of(lines) == ["Base", "", "TS", "TS-P", "IR", "IR-P"]


@pytest.mark.parametrize("first", [None, 0.2])
def test_everything_drawn_for_any_group_is_in_the_legend(first):
    values = {"Base": [0.3, 0.3], "TS": [first, 0.1]}
    printed = {"Base": [None, None], "TS": [None, 0.2]}
    bars = Bars("b", "", "", ["not in the paper", "in the paper"], values, "ECE", published=printed)
    assert [text for text in legend_of(bars) if text] == ["Base", "paper", "TS"]


def test_bars_are_hatched_by_what_was_tuned_on():
    values = {"TS": [0.1], "TS-P": [0.1]}

    def hatches(**options):
        drawn = DRAWERS[Bars](Bars("b", "", "", ["one"], values, "ECE", **options))
        return [bool(bar.get_hatch()) for bar in drawn.axes[0].patches]

    assert hatches() == [True, False]
    assert hatches(all_filled=True) == [False, False]


def test_labels_of_affine_levels_have_their_unit():
    labels = {name: [Affine(name).label(level) for level in (0, 1, 9)] for name in AFFINE}
    assert labels["rot_left"] == labels["rot_right"] == labels["shear"] == ["0°", "10°", "90°"]
    assert labels["xshift"] == labels["xyshift"] == ["0/32", "2/32", "18/32"]
    assert labels["yzoom"] == ["×1", "×1.11", "×10"]


def test_names_on_the_pareto_front_do_not_overlap_and_the_legend_explains_fills():
    points = {"TS": (0.01, 0.3), "IR-P": (0.1, 0.1), "PTS-V": (0.1005, 0.0995), "IRM-C": (0.101, 0.099)}
    drawn = DRAWERS[Points](Points("p", "", "", points, "x", "y", pareto_front=list(points)))
    (legend,) = drawn.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[:4] == ["TS", "IR", "PTS", "IRM"]
    assert [text[:2] for text in texts[5:8]] == ["no", "-P", "-C"]
    assert texts[-1] == "Pareto front"
    drawn.draw_without_rendering()
    boxes = [text.get_window_extent() for text in drawn.axes[0].texts]
    assert [text.get_text() for text in drawn.axes[0].texts] == list(points)
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
