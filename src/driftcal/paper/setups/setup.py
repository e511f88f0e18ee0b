"""A network with its validation and test data, and the shifts of the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from driftcal.data import Source
from driftcal.models import Model
from driftcal.paper.networks.registry import Network, network_label
from driftcal.shifts import get_suite
from driftcal.shifts.shift import Shift

#: Data sets with networks as tables print them.
DATA_LABELS = {"digits": "Digits", "cifar10": "CIFAR-10", "imagenet": "ImageNet"}
#: The suites of the paper; names and labels of setups leave them out.
_PAPER_SUITES = ("affine", "imagenet-c")


@dataclass(frozen=True, eq=False)
class Setup:
    """A network, its validation and test data, and a suite of shifts.

    Parameters
    ----------
    network : the network.
    data : name of the data set, a key of `DATA_LABELS`.
    validation : data for tuning calibrators.
    test : data for testing them.
    suite : name of the suite.
    shifts : shifts of the suite.
    objectnet : ObjectNet, with classes of the network and others.
    ood : name -> data that belong to no class of the network.
    left_out_classes : classes that are left out for the comparison with unknown classes.
    block_size : images that are cached under one key, so that a run with more images goes on from them; None for all.
    training : function that reads some of the network's training images; None if there are none.
    """

    network: Network
    data: str
    validation: Source
    test: Source
    suite: str
    shifts: Sequence[Shift]
    objectnet: Source | None = None
    ood: Mapping[str, Source] = field(default_factory=dict)
    training: Callable[[], Source] | None = None
    left_out_classes: tuple[int, ...] = ()
    block_size: int | None = None

    @property
    def model(self) -> Model:
        """The network as a model."""
        return self.network.model

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that calibrators may read; () if there are none."""
        return self.network.layers

    @property
    def uses_paper_suite(self) -> bool:
        """Whether the suite is one of the paper's."""
        return self.suite in _PAPER_SUITES

    @property
    def name(self) -> str:
        """The name in file names."""
        return self.network.name if self.uses_paper_suite else f"{self.network.name}-{self.suite}"

    @property
    def label(self) -> str:
        """The name in tables."""
        suite = "" if self.uses_paper_suite else f", {self.suite}"
        return f"{DATA_LABELS[self.data]} {network_label(self.network.name)}{suite}"

    @property
    def all_suites(self) -> dict[str, Sequence[Shift]]:
        """The suite; for CIFAR-10 with affine shifts also the simulated corruptions."""
        suites: dict[str, Sequence[Shift]] = {self.suite: self.shifts}
        if self.suite == "affine" and self.data == "cifar10":
            suites["cifar10-c"] = get_suite("cifar10-c").shifts
        return suites

    def metadata(self) -> dict[str, Any]:
        """Plain values that are recorded with the results."""
        return {
            "network": self.network.name, "data": self.data, "suite": self.suite, "model": self.model.metadata(),
            "validation": self.validation.metadata(), "test": self.test.metadata(),
        }  # fmt: skip
