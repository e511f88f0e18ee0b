"""Help texts with lists from registries, filled in when help is printed: importing the registries takes a second."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from driftcal.cli.options import check_outputs


class RegistryHelpCommand(TyperCommand):
    """A command whose help may hold names of lists, such as ``{methods}`` (see `_lists`), and that replaces none of its inputs."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, after a check that its outputs are none of its inputs."""
        inputs = {param.name for param in self.params if param.param_type_name == "argument"}
        check_outputs(self.name or "", ctx.params, inputs)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Fill in the lists, then print the options."""
        for option in self.params:
            text = getattr(option, "help", None)
            if isinstance(text, str) and "{" in text:
                option.help = text.format(**_lists())  # type: ignore[attr-defined]
        super().format_options(ctx, formatter)


def _lists() -> dict[str, str]:
    from driftcal.calibrators import CALIBRATORS
    from driftcal.drift.estimators import ESTIMATOR_NAMES
    from driftcal.report.table import FORMATS
    from driftcal.shifts import SHIFTS, SUITES

    registries = {
        "methods": CALIBRATORS,
        "tuning_shifts": [name for name, shift in SHIFTS.items() if shift.levels is None],
        "suites": SUITES,
        "estimators": ESTIMATOR_NAMES,
        "formats": FORMATS,
    }
    return {key: ", ".join(names) for key, names in registries.items()}
