"""The choice of a calibrator: in domain no worse than temperature scaling, under shift the lowest error."""

import inspect

import numpy as np
import pytest

import driftcal
from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.cli.commands.tune import tune as tune_command
from driftcal.errors import InputError, UnknownName
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.collecting.simulated import SimulatedLogits
from driftcal.pipeline.tuning.candidates import CLEAN_ONLY, SIMULATED_METHODS, TS, Selection, Variant, variants_of
from driftcal.pipeline.tuning.cross_validation import N_BINS, Trial, cross_validate
from driftcal.pipeline.tuning.fit import stack_simulated
from driftcal.pipeline.tuning.select import choose
from driftcal.pipeline.tuning.selection_rule import SelectionRule
from driftcal.pipeline.tuning.tune_calibrators import tune_calibrators

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
#: Four families of simulated shifts at three levels, each on half of the samples.
SHIFTS = [(f"family {k}", level) for k in range(4) for level in (1, 3, 5)]
SIMULATED = PerturbedLogits(
    {"shift": "gaussian", "passes": 6.0, "notes": []},
    PERTURBED.by_level,
    SimulatedLogits(
        [family for family, _ in SHIFTS],
        [np.arange(k % 2, N, 2) for k in range(len(SHIFTS))],
        [level_data(level, 50 + k)[0][k % 2 :: 2] for k, (_, level) in enumerate(SHIFTS)],
    ),
)


def named(trials):
    return {trial.variant: trial for trial in trials}


def test_the_choice_is_admitted_in_domain_and_no_admitted_candidate_is_clearly_better():
    choice = choose(Selection(candidates=("base", "ets", "irm", "hts")), PERTURBED, LABELS)
    trials = named(choice.trials)
    best, ts = trials[choice.per_sample], trials[TS]
    assert best.in_domain_ece <= ts.in_domain_ece + Selection().limit
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
    variants, reasons = variants_of(selection, few, LABELS[:100], None, CollectedFeatures())
    assert all(CALIBRATORS[variant.method].keeps_accuracy for variant in variants)
    assert "The rarest class has 20 validation samples, fewer than 50" in reasons[0]
    wide = np.tile(PERTURBED.clean, (1, 50))  # 250 classes
    large = PerturbedLogits({}, [np.tile(wide, (20, 1))] * 6)
    variants, reasons = variants_of(selection, large, np.arange(16_000) % 250, None, CollectedFeatures())
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
    assert Variant("irm", None).label == "IRM tuned on clean and shifted samples"


def test_candidates_are_fitted_and_judged_on_simulated_shifts_that_were_left_out():
    choice = choose(Selection(tolerance=0.05), SIMULATED, LABELS)
    trials = named(choice.trials)
    best, ts = trials[choice.per_sample], trials[TS]
    assert choice.per_sample.simulated
    assert choice.per_sample.method in SIMULATED_METHODS
    assert best.shift_ece < ts.shift_ece - 0.02
    assert best.in_domain_ece <= ts.in_domain_ece + 0.05
    assert len(best.shifted) == 4
    assert sorted(best.images) == list(range(N))
    assert f"{best.shift_ece:.3f}" in choice.explanation
    assert f"(TS {ts.shift_ece:.3f})" in choice.explanation
    tuned = tune_calibrators(None, Selection(tolerance=0.05), SIMULATED, LABELS)
    assert (tuned.method, tuned.tuned_on) == (choice.per_sample.method, "simulated shifts")
    assert tuned.cross_validated_ece == {
        "in_domain": best.in_domain_ece,
        "under_shift": best.shift_ece,
        "shift": "simulated shifts that the fit had not seen",
    }
    if tuned.windowed is not None:
        assert tuned.windowed_cross_validated_ece["shift"] == "the tuning shift"
    loosest = choose(Selection(tolerance=1.0, candidates=["hts"]), SIMULATED, LABELS)
    assert loosest.per_sample.clean_weight < choice.per_sample.clean_weight


def test_fits_of_the_comparison_leave_out_images_and_families_and_keep_the_clean_weight():
    held_out = np.arange(N) % 5 == 0
    kept = int((~held_out).sum())
    for left_out, n_families in ((("family 0", "family 3"), 2), (("family 1",), 3)):
        stacked = stack_simulated(SIMULATED, LABELS, clean_weight=0.9, selected=~held_out, leave_out=left_out)
        assert len(set(stacked.levels)) == 1 + 3 * n_families
        assert len(stacked.labels) == kept + 3 * n_families * kept // 2
        assert stacked.sample_weight[stacked.levels == 0].sum() == pytest.approx(0.9 * stacked.sample_weight.sum())
    thin = stack_simulated(SIMULATED, LABELS, clean_weight=0.9, max_samples=300)
    assert 290 < (thin.levels > 0).sum() < 320
    assert thin.sample_weight[thin.levels == 0].sum() == pytest.approx(0.9 * thin.sample_weight.sum())
    variant = Variant("ts", 0.9, simulated=True)
    trial = cross_validate([TS, variant], SIMULATED, LABELS, CollectedFeatures())[variant]
    assert [len(family.images) for family in trial.shifted] == [3 * N // 2] * 4


def test_the_distance_of_confidences_bounds_the_rise_of_the_in_domain_ece():
    trials = cross_validate(
        [TS, *(Variant("ts", weight, simulated=True) for weight in (0.97, 0.9, 0.5))],
        SIMULATED,
        LABELS,
        CollectedFeatures(),
    )
    ts, *others = trials.values()
    distances = [trial.confidence_distance(ts) for trial in others]
    assert distances == sorted(distances)
    rule = SelectionRule(ts, 0.0, ts.accuracy)
    for trial, distance in zip(others, distances, strict=True):
        edges = np.linspace(0, 1, N_BINS + 1)
        bins = np.clip(np.digitize(trial.by_level[0].confidence, edges, right=True) - 1, 0, N_BINS - 1)
        gaps = np.bincount(bins, ts.by_level[0].confidence - ts.by_level[0].outcome, N_BINS)
        assert trial.in_domain_ece <= np.abs(gaps).sum() / N + distance + 1e-12
        assert rule.cost_bound(trial) == distance
    assert rule.best([ts, *others]) is ts
    assert rule.cost_bound(ts) == 0
    incorrect = Trial(TS, [level_scores(1 - ts.by_level[0].outcome)], 5, ts.images)
    assert incorrect.confidence_distance(ts) == np.inf


def level_scores(outcome):
    from driftcal.metrics.sample_scores import SampleScores

    return SampleScores.of_columns(np.stack([np.full(N, 0.5), outcome, outcome, *np.zeros((3, N))], axis=1))


def clean_trial(method, confidence, outcome, nll):
    """A trial on clean samples only."""
    from driftcal.metrics.sample_scores import SampleScores

    columns = np.stack([confidence, outcome, outcome, nll, *np.zeros((2, len(outcome)))], axis=1)
    return Trial(Variant(method), [SampleScores.of_columns(columns)], 5, np.arange(len(outcome)))


def test_without_shift_a_candidate_replaces_ts_only_if_its_ece_is_clearly_lower_and_its_nll_is_not_higher():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 2000)
    outcome = (rng.random(2000) < p).astype(float)
    nll = -np.log(np.where(outcome > 0, p, 1 - p))
    ts = clean_trial("ts", p, outcome, nll)
    rule = SelectionRule(ts, Selection().limit, ts.accuracy)
    lucky = clean_trial("irm", p + np.where(p < 0.9, 0.002, 0.0) * np.sign(outcome.mean() - p.mean()), outcome, nll)
    shifted = clean_trial("ts", np.clip(p + 0.1, 0, 1), outcome, nll + 0.02)
    assert lucky.in_domain_ece < ts.in_domain_ece, "lower by less than the noise"
    assert rule.best([ts, lucky]) is ts
    rule = SelectionRule(shifted, Selection().limit, shifted.accuracy)
    better, worse = clean_trial("hts", p, outcome, nll), clean_trial("hts", p, outcome, nll + 0.03)
    assert rule.best([shifted, better]) is better
    assert rule.best([shifted, worse]) is shifted, "the ECE is clearly lower, but the NLL is higher"
    unsure = clean_trial("spline", p, outcome, nll + 0.03)
    assert rule.best([shifted, better, unsure]) is better


def test_the_explanation_of_a_choice_without_shift_says_the_rule():
    rng = np.random.default_rng(1)
    logits = 3 * rng.normal(size=(N, C))
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    choice = choose(Selection(candidates=("base", "ets")), PerturbedLogits(None, [logits]), y)
    assert choice.per_sample == TS
    ts = named(choice.trials)[TS]
    assert choice.explanation == (
        "TS was chosen: no other candidate has a clearly lower ECE without a higher NLL (cross-validated ECE of TS "
        f"{ts.in_domain_ece:.3f})."
    )


def test_windows_are_recommended_only_where_they_are_clearly_better():
    gained = choose(Selection(candidates=("level-ts",)), PERTURBED, LABELS)
    assert "use calibrated.windowed(100)" in gained.explanation
    same = PerturbedLogits({}, [level_data(0, seed)[0] for seed in range(4)])  # levels that change nothing
    useless = choose(Selection(candidates=("level-ts",)), same, LABELS)
    assert useless.windowed is not None
    assert "Windows of 100 samples gained nothing in the cross-validation" in useless.explanation
    assert "calibrated.windowed" not in useless.explanation


@pytest.mark.parametrize(
    ("accuracies", "message"),
    [
        ([0.9, 0.7, 0.55], "The strongest perturbation lowers the accuracy to 0.55 only, not to chance (0.20)."),
        ([0.9, 0.6, 0.25], ""),
        ([0.9], "Accuracy does not fall."),
    ],
)
def test_the_explanation_tells_of_the_levels_only_what_matters(accuracies, message):
    levels = [{"accuracy": value} for value in accuracies]
    record = {"shift": "gaussian", "levels": levels, "notes": ["accuracy does not fall"]}
    perturbed = PerturbedLogits(record, PERTURBED.by_level[: len(levels)])
    tuned = tune_calibrators(make_calibrator("ts"), Selection(), perturbed, LABELS)
    assert tuned.explanation == message


def test_a_single_family_of_simulated_shifts_cannot_be_left_out_so_levels_count():
    one = SimulatedLogits(["noise"] * 2, [np.arange(N)] * 2, [PERTURBED.by_level[1], PERTURBED.by_level[3]])
    choice = choose(Selection(candidates=["hts"]), PerturbedLogits(SIMULATED.record, PERTURBED.by_level, one), LABELS)
    assert not any(trial.variant.simulated or trial.shifted for trial in choice.trials)


def test_the_command_line_has_the_same_tolerance():
    assert inspect.signature(tune_command).parameters["tolerance"].default == Selection().tolerance


def test_tables_have_a_smaller_tolerance_unless_one_is_set():
    assert (Selection().for_inputs("images").limit, Selection().for_inputs("features").limit) == (0.015, 0.005)
    assert Selection(tolerance=0.02).for_inputs("features").limit == 0.02


def test_candidates_are_read_once():
    assert Selection(candidates=(name for name in ("ts", "hts"))).candidates == ("ts", "hts")
    for candidates in ("ts", 5, [], [5], [["ts"]]):
        with pytest.raises(InputError, match="candidates must be a list of names"):
            Selection(candidates=candidates)
    with pytest.raises(UnknownName):
        Selection(candidates=["tts"])


def test_keep_accuracy_is_true_or_false():
    for value in ("no", None, 0):
        with pytest.raises(InputError, match="keep_accuracy must be True or False"):
            Selection(keep_accuracy=value)


def test_the_number_of_levels_is_checked_before_the_work():
    for n_levels in (None, "3", 0, 2.5):
        with pytest.raises(InputError, match="n_levels must be a whole number"):
            driftcal.tune(None, None, n_levels=n_levels)
