"""The choice of a calibrator: in domain no worse than temperature scaling, under shift the lowest error."""

import numpy as np
import pytest

from driftcal.calibrators import CALIBRATORS
from driftcal.errors import InputError, UnknownName
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.tuning.select import CLEAN_ONLY, TS, Selection, Variant, _variants, choose

N, C = 800, 5


def level_data(level, seed, n=N):
    """Over-confident logits, which are less often correct the higher the level."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % C
    z = rng.normal(size=(n, C)) * 1.6
    z[np.arange(n), y] += 4.0 - 0.6 * level
    return (3 * z).astype(np.float32), y


LABELS = level_data(0, 0)[1]
PERTURBED = PerturbedLogits({}, [level_data(level, level)[0] for level in range(6)])


def named(trials):
    return {trial.variant: trial for trial in trials}


def test_the_choice_is_admitted_in_domain_and_no_admitted_candidate_is_clearly_better():
    choice = choose(Selection(candidates=("base", "ets", "irm", "hts")), PERTURBED, LABELS)
    trials = named(choice.trials)
    best, ts = trials[choice.per_sample], trials[TS]
    assert best.in_domain_ece <= ts.in_domain_ece + 0.005
    assert best.shift_ece <= ts.shift_ece
    assert choice.per_sample.label in choice.explanation


def test_temperature_scaling_is_always_a_candidate():
    assert TS in named(choose(Selection(candidates=("irm",)), PERTURBED, LABELS).trials)
    alone = choose(Selection(candidates=("level-ts",)), PERTURBED, LABELS)
    assert (alone.per_sample, alone.windowed) == (TS, Variant("level-ts", None))


def test_tuning_on_perturbed_samples_is_not_chosen_if_the_in_domain_ece_rises_too_much():
    strict = choose(Selection(candidates=("irm",)), PERTURBED, LABELS)
    assert strict.per_sample != Variant("irm", None)
    loose = choose(Selection(candidates=("irm",), tolerance=1.0), PERTURBED, LABELS)
    trials = named(loose.trials)
    assert trials[loose.per_sample].shift_ece < 0.7 * trials[TS].shift_ece
    assert trials[loose.per_sample].in_domain_ece > trials[TS].in_domain_ece + 0.005


def test_few_samples_give_temperature_scaling():
    few = PerturbedLogits({}, [level[:40] for level in PERTURBED.by_level])
    assert choose(Selection(), few, LABELS[:40]).per_sample == TS


def test_windowed_candidates_are_compared_with_each_other():
    choice = choose(Selection(candidates=("ts", "level-ts", "window-ts")), PERTURBED, LABELS)
    assert choice.windowed.method in ("level-ts", "window-ts")
    trials = named(choice.trials)
    assert trials[choice.windowed].shift_ece < 0.5 * trials[TS].shift_ece
    assert "With windows of 100 samples" in choice.explanation


def test_without_perturbed_samples_there_is_no_windowed_form_and_every_method_is_tuned_on_clean_ones():
    clean = PerturbedLogits(None, PERTURBED.by_level[:1])
    choice = choose(Selection(candidates=("ts", "irm", "level-ts")), clean, LABELS)
    assert choice.windowed is None
    assert set(named(choice.trials)) == {TS, Variant("irm")}
    assert "level" not in choice.explanation.lower()


def test_by_default_every_method_that_keeps_the_accuracy_is_tried():
    methods = {trial.variant.method for trial in choose(Selection(), PERTURBED, LABELS).trials}
    expected = {n for n, kind in CALIBRATORS.items() if kind.keeps_accuracy and not kind.needs_features}
    # of the windowed ones only the one that is fitted on many simulated shifts, unless others are named
    assert methods == expected - {"level-ts"}
    assert "window-ts" in methods


def test_candidates_that_are_clearly_worse_are_dropped_and_would_not_have_been_chosen():
    together = choose(Selection(candidates=("ets", "irm", "hts", "spline")), PERTURBED, LABELS)
    assert {trial.n_folds for trial in together.trials} > {1, 5}
    for trial in together.trials:
        if trial.n_folds < 5:
            alone = choose(Selection(candidates=(trial.variant.method,)), PERTURBED, LABELS)
            if alone.per_sample == trial.variant:
                chosen = named(together.trials)[together.per_sample]
                assert named(alone.trials)[trial.variant].shift_ece >= chosen.shift_ece - 0.01


def test_a_candidate_that_loses_accuracy_is_not_chosen():
    """Bins that almost always predict one class are calibrated, but useless."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(N) < 0.7, 0, rng.integers(1, C, N))
    clean = rng.normal(size=(N, C))
    clean[np.arange(N), labels] += 2.0
    perturbed = PerturbedLogits({}, [8 * clean, *8 * rng.normal(size=(3, N, C))])
    choice = choose(Selection(keep_accuracy=False, tolerance=1.0, candidates=("hb",)), perturbed, labels)
    trials = named(choice.trials)
    binned = trials[Variant("hb", None)]
    assert binned.shift_ece < trials[TS].shift_ece
    assert binned.accuracy < trials[TS].accuracy - 0.02
    assert choice.per_sample.method != "hb" or trials[choice.per_sample].accuracy >= trials[TS].accuracy - 0.02


def test_methods_that_are_left_out_are_named():
    few = PerturbedLogits({}, [level[:100] for level in PERTURBED.by_level])
    selection = Selection(keep_accuracy=False)
    variants, reasons = _variants(selection, few, LABELS[:100], None, CollectedFeatures())
    assert all(CALIBRATORS[variant.method].keeps_accuracy for variant in variants)
    assert "The rarest class has 20 validation samples, fewer than 50" in reasons[0]
    wide = np.tile(PERTURBED.clean, (1, 50))  # 250 classes
    large = PerturbedLogits({}, [np.tile(wide, (20, 1))] * 6)
    variants, reasons = _variants(selection, large, np.arange(16_000) % 250, None, CollectedFeatures())
    assert "dirichlet" not in {variant.method for variant in variants}
    assert any("DIRICHLET was left out: 250² numbers on 96000 samples" in reason for reason in reasons)


def test_a_candidate_that_cannot_be_tuned_does_not_stop_the_others():
    always_correct = PerturbedLogits(None, [np.where(np.eye(C)[LABELS] > 0, 9.0, 0.0)])  # no temperature is best
    choice = choose(Selection(candidates=("ts", "irm")), always_correct, LABELS)
    assert choice.per_sample == TS
    assert "no finite optimum" in choice.explanation


def test_a_selection_checks_its_arguments():
    with pytest.raises(UnknownName, match="irn"):
        Selection(candidates=["irn"])
    with pytest.raises(InputError, match="tolerance must be an ECE"):
        Selection(tolerance=-0.1)
    assert Variant("irm", CLEAN_ONLY).label == "IRM"
    assert Variant("irm", None).label == "IRM-P"
