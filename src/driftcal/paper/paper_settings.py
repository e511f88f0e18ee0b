"""The choices in which driftcal differs from the paper's code, said once."""

from __future__ import annotations

from dataclasses import dataclass

from driftcal.shifts.gaussian import Gaussian


@dataclass(frozen=True)
class Settings:
    """How calibrators are tuned and measured: bins of the ECE, cap on T, clipping of the tuning noise, levels, seed."""

    name: str
    n_bins: int = 15
    t_max: float | None = None
    clip: bool = True
    levels: int = 10
    seed: int = 0

    def noise(self, data: str) -> Gaussian:
        """The tuning noise; the paper's code clips it for ImageNet and for nothing else."""
        return Gaussian(clip=self.clip or data == "imagenet")

    def describe(self) -> str:
        """In words, for captions.

        >>> print(OURS.describe())
        ECE with 15 bins, temperatures exact, tuning noise clipped to [0, 1]
        """
        cap = "temperatures exact" if self.t_max is None else f"temperatures at most {self.t_max:g}"
        noise = "tuning noise clipped to [0, 1]" if self.clip else "tuning noise clipped on ImageNet only"
        return f"ECE with {self.n_bins} bins, {cap}, {noise}"


#: driftcal's own choices.
OURS = Settings("ours")
#: Those of the paper's code: T within [0.05, 5] (the lower end never binds on real networks), 10 bins, noise not clipped.
AS_PUBLISHED = Settings("as published", n_bins=10, t_max=5.0, clip=False)
