"""The choices in which driftcal differs from the paper's code."""

from __future__ import annotations

from dataclasses import dataclass

from driftcal.shifts.gaussian import Gaussian


@dataclass(frozen=True)
class PaperSettings:
    """How calibrators are tuned and measured.

    Parameters
    ----------
    name : name of these settings in tables.
    n_bins : bins of the ECE.
    t_max : upper bound of temperatures; None for no bound.
    clip_noise : whether the tuning noise is clipped to [0, 1] on all data; on ImageNet it always is.
    n_levels : perturbation levels of Algorithm 1, the clean one included.
    seed : seed of all noise and random shifts.
    n_resamples : bootstrap resamples of the test images; 0 computes no intervals.
    h_images : how many validation images -H is tuned on, the first ones; None for all.
    """

    name: str
    n_bins: int = 15
    t_max: float | None = None
    clip_noise: bool = True
    n_levels: int = 10
    seed: int = 0
    n_resamples: int = 200
    h_images: int | None = None

    def noise(self, data: str) -> Gaussian:
        """The tuning noise for a data set."""
        return Gaussian(clip=self.clip_noise or data == "imagenet")

    def caption(self) -> str:
        """The settings as text.

        >>> print(OURS.caption())
        ECE with 15 bins, temperatures exact, tuning noise clipped to [0, 1]
        """
        temperatures = "temperatures exact" if self.t_max is None else f"temperatures at most {self.t_max:g}"
        noise = "tuning noise clipped to [0, 1]" if self.clip_noise else "tuning noise clipped on ImageNet only"
        return f"ECE with {self.n_bins} bins, {temperatures}, {noise}"


#: The settings of driftcal.
OURS = PaperSettings("ours")
#: The settings of the paper's code: T in [0.05, 5], 10 bins, noise not clipped. No network reaches a T of 0.05.
AS_PUBLISHED = PaperSettings("as published", n_bins=10, t_max=5.0, clip_noise=False)
