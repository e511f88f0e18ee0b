"""Logits, perturbation levels, tuned calibrators and evaluations that experiments share. Each is computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from driftcal.cache import LogitCache
from driftcal.calibrators import Calibrator, make_calibrator
from driftcal.data import Source
from driftcal.errors import InputError
from driftcal.paper.calibrator_names import BASELINE_METHODS, PAPER_METHODS
from driftcal.paper.paper_settings import AS_PUBLISHED, OURS, PaperSettings
from driftcal.paper.setups.open_setups import first_samples
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import SuiteResults, evaluate_suite
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.conditions import CLEAN
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, perturb
from driftcal.pipeline.collecting.run import OnProgress, Run
from driftcal.pipeline.evaluating.candidate import Candidate, uncalibrated
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES
from driftcal.pipeline.tuning.fit import fit_or_uncalibrated
from driftcal.shifts import get_suite
from driftcal.types import Labels, Logits

T = TypeVar("T")

#: Suffix of a calibrator -> the samples that it was tuned on.
_TUNED_ON = {"": CLEAN_SAMPLES, "-p": "gaussian", "-h": "h-tuning"}


def capped(method: str, t_max: float | None) -> Calibrator:
    """An unfitted calibrator, with the cap `t_max` if it takes one."""
    calibrator = make_calibrator(method)
    return calibrator.set_params(t_max=t_max) if "t_max" in calibrator.get_params() else calibrator


@dataclass(eq=False)
class ExperimentContext:
    """Setups and settings of a run, and all that was computed for them."""

    setups: Sequence[Setup]
    settings: PaperSettings = OURS
    cache: LogitCache | None = None
    on_progress: OnProgress | None = None
    _computed: dict[Any, Any] = field(default_factory=dict)

    @property
    def both_settings(self) -> tuple[PaperSettings, PaperSettings]:
        """driftcal's settings and the published ones, with the seed and the resamples of this run."""
        ours, published = (
            self.settings
            if settings.name == self.settings.name
            else replace(
                settings,
                seed=self.settings.seed,
                n_resamples=self.settings.n_resamples,
                h_images=self.settings.h_images,
            )
            for settings in (OURS, AS_PUBLISHED)
        )
        return ours, published

    def collector(self, setup: Setup, source: Source) -> Collector:
        """The model's logits on a source under any shift."""
        collector = self._once(
            (id(setup.model), id(source)),
            lambda: Collector(
                setup.model,
                source,
                run=Run(cache=self.cache),
                random_state=self.settings.seed,
                block_size=setup.block_size,
            ),
        )
        collector.on_progress = self.on_progress  # it may have been set after the collector was made
        return collector

    def clean_logits(self, setup: Setup, source: Source) -> Logits:
        """The model's logits on a source without any shift."""
        return self.collector(setup, source).logits(*CLEAN)

    def objectnet_known_classes(self, setup: Setup) -> Source:
        """ObjectNet's images of classes that the network has."""
        source = setup.objectnet
        if source is None:
            raise InputError(f"{setup.label} needs ObjectNet; it is not given. Give --data objectnet=DIR.")
        return self._once(("known classes", id(source)), source.labelled)

    def perturbed(self, setup: Setup, settings: PaperSettings | None = None) -> PerturbedLogits:
        """The perturbation levels of Algorithm 1 on the validation images, and the logits of each, clean ones first."""
        used_settings = settings or self.settings
        noise, n_levels = used_settings.noise(setup.data), used_settings.n_levels
        return self._once(
            ("levels", id(setup.validation), id(setup.model), noise.clip, n_levels),
            lambda: perturb(self.collector(setup, setup.validation), noise, n_levels=n_levels),
        )

    def h_validation(self, setup: Setup, settings: PaperSettings | None = None) -> Source:
        """The validation images that -H is tuned on."""
        n_images = (settings or self.settings).h_images
        return self._once(("first", id(setup.validation), n_images), lambda: first_samples(setup.validation, n_images))

    def tuning_samples(
        self, setup: Setup, suffix: str, settings: PaperSettings | None = None, n_images: int | None = None
    ) -> tuple[Logits, Labels]:
        """The labelled logits that calibrators with this suffix are tuned on; only of the first `n_images` images."""
        source = setup.validation
        if suffix == "-p":
            logits = [np.asarray(level) for level in self.perturbed(setup, settings).by_level]
        elif suffix == "-h":
            source = self.h_validation(setup, settings)
            collector = self.collector(setup, source)
            # each corruption at all its severities, 0 included
            logits = [collector.logits(shift, level) for shift, level in get_suite("h-tuning")]
        else:
            logits = [self.clean_logits(setup, source)]
        return np.concatenate([level[:n_images] for level in logits]), np.tile(source.labels[:n_images], len(logits))

    def candidates(
        self,
        setup: Setup,
        methods: Sequence[str],
        suffixes: Sequence[str] = ("", "-p"),
        settings: PaperSettings | None = None,
        n_images: int | None = None,
    ) -> list[Candidate]:
        """The uncalibrated model, then every method with every suffix, tuned on the first `n_images` images."""
        used_settings = settings or self.settings
        return [
            uncalibrated(self.collector(setup, setup.validation).n_classes),
            *(
                self._candidate(setup, method, suffix, used_settings, n_images)
                for suffix in suffixes
                for method in methods
            ),
        ]

    def _candidate(
        self, setup: Setup, method: str, suffix: str, settings: PaperSettings, n_images: int | None
    ) -> Candidate:
        def candidate() -> Candidate:
            logits, labels = self.tuning_samples(setup, suffix, settings, n_images)
            fit = fit_or_uncalibrated(capped(method, settings.t_max), logits, labels)
            return Candidate(f"{method}{suffix}", method, fit.calibrator, _TUNED_ON[suffix], fit.warnings)

        # a fit does not depend on the number of bins, and on clipping only if it is tuned on noise
        clip = settings.clip_noise or suffix != "-p"
        return self._once(
            ("fit", id(setup.validation), id(setup.model), method, suffix, settings.t_max, clip, n_images), candidate
        )

    def suite_results(
        self,
        setup: Setup,
        methods: Sequence[str] = (*PAPER_METHODS, *BASELINE_METHODS),
        suffixes: Sequence[str] = ("", "-p"),
        settings: PaperSettings | None = None,
        n_images: int | None = None,
    ) -> SuiteResults:
        """The calibrators on every shift and level of the suite; earlier results that hold all of them are reused.

        With `n_images` they are tuned on the first `n_images` validation images.
        """
        used_settings = settings or self.settings
        names = {"base", *(f"{method}{suffix}" for method in methods for suffix in suffixes)}
        earlier: list[SuiteResults] = self._once(("suite results", id(setup), used_settings, n_images), list)
        for results in earlier:
            if names <= set(results.calibrators):
                return results
        results = evaluate_suite(
            self.collector(setup, setup.test),
            self.candidates(setup, methods, suffixes, used_settings, n_images),
            setup.shifts,
            suite=setup.suite,
            n_bins=used_settings.n_bins,
            n_resamples=used_settings.n_resamples,
            metadata=setup.metadata(),
        )
        earlier.append(results)
        return results

    def _once(self, key: Any, compute: Callable[[], T]) -> T:
        if key not in self._computed:
            self._computed[key] = compute()
        value: T = self._computed[key]
        return value
