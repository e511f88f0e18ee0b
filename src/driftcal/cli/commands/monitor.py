"""driftcal monitor"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console, plain_numbers
from driftcal.cli.signals import on_signals
from driftcal.cli.window_printer import window_printer
from driftcal.core.messages import printable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from driftcal.monitor.monitor import Monitor
    from driftcal.monitor.reading.stream_batch import StreamBatch

#: Unit of a time -> seconds.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def monitor(
    context: typer.Context,
    calibrator: Annotated[Path, typer.Argument(help="The calibrator that tune wrote.", metavar="CALIBRATOR")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files (.npz, .npy, .csv, lines of JSON), or - for lines of JSON on stdin.", metavar="[INPUT]..."
        ),
    ] = None,
    score_type: Annotated[
        str | None,
        typer.Option(
            help="Type of the scores: logits, or probabilities of the uncalibrated model.",
            show_default="that of fit, otherwise logits",
        ),
    ] = None,
    window_size: Annotated[
        str,
        typer.Option(
            help="Length of a window: a number of samples, or a time (90s, 15m, 1h, 1d). "
            "Lines of stdin without a time get the time of their arrival."
        ),
    ] = "500",
    estimator: Annotated[
        str | None,
        typer.Option(
            help="Accuracy estimator: {estimators}.",
            show_default="window-ts if tune has fitted it, otherwise the best on the validation samples",
        ),
    ] = None,
    false_alarm_rate: Annotated[float, typer.Option(help="Largest share of clean windows with an alarm.")] = 0.001,
    low_confidence: Annotated[float, typer.Option(help="A confidence below this is low.")] = 0.5,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Keep the state in this file, and continue from it if it exists.", callback=options.output_file
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Draw the timeline as one HTML file.", metavar="FILE.html", callback=options.output_file),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            help="Keep the numbers in Prometheus' text format in this file; - prints them at the end.",
            callback=options.output_file,
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Listen on this address instead of reading inputs: POST JSON lines, KServe or CloudEvents to /; "
            "GET /metrics, /report, /healthz.",
            metavar="HOST:PORT",
        ),
    ] = None,
    max_body_mb: Annotated[
        float, typer.Option(help="Largest body that --listen takes, in MB.", min=0.001, metavar="MB")
    ] = 4,
    max_line_mb: Annotated[
        float,
        typer.Option(
            help="Longest line of the input, in MB. A longer one is rejected. Reading a line may take 60 times its length in memory.",
            min=0.001,
            metavar="MB",
        ),
    ] = 4,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Monitor a calibrated model: accuracy without labels, drift, and calibration once labels arrive.

    The input is files or a stream of JSON lines such as {"logits": [1.2, 0.3], "time": 1700000000, "id": "a1", "label":
    1}. Only the logits (or probabilities) are required. A later line {"id": "a1", "label": 1} adds a late label. Lines
    that cannot be read are counted and reported; they never stop the command.

    \b
      driftcal monitor cal.safetensors logits.npz --report timeline.html
    \b
    A live stream: windows of an hour, a state file, metrics for Prometheus:
      tail -F predictions.jsonl | driftcal monitor cal.safetensors \\
        --window-size 1h --state monitor.safetensors --prometheus driftcal.prom
    \b
    One JSON object per window, and a summary at the end:
      driftcal monitor cal.safetensors logits.npy --json
    \b
    A service that others send samples to, with metrics for Prometheus:
      driftcal monitor cal.safetensors --window-size 1h \\
        --listen 127.0.0.1:9108 --state monitor.safetensors
    """
    from driftcal.monitor.reading.stream_reader import read_batches
    from driftcal.monitor.serving.service import MonitorService

    console = Console(as_json, quiet)
    size, timed = _parse_window_size(window_size)
    settings: dict[str, Any] = {
        **({} if score_type is None else {"score_type": score_type}),
        "window_size": size,
        "estimator": estimator,
        "false_alarm_rate": false_alarm_rate,
        "low_confidence": low_confidence,
    }
    address = None
    if listen is not None:
        from driftcal.cli.commands.monitor_listen import parse_address

        address = parse_address(listen)
        if sources:
            raise typer.BadParameter(
                f"must be without inputs; there is {sources[0]!r}. Read files first, with the same --state.",
                param_hint="--listen",
            )
    paths = sources or ["-"]
    continued = state is not None and state.exists()
    monitored = _open_monitor(context, calibrator, state, settings, timed=timed, listens=listen is not None)
    if dry_run:
        outputs = [str(path) for path in (state, report, prometheus) if path is not None and str(path) != "-"]
        inputs = [path if path == "-" or Path(path).exists() else f"{path} (missing)" for path in paths]
        inputs = inputs if listen is None else [f"http://{listen}"]
        lines = [f"would read {path}" for path in inputs] + [f"would write {path}" for path in outputs]
        console.output({"would_read": inputs, "would_write": outputs}, *lines)
        return
    if continued:
        console.message(f"continuing from {state} with its settings: {monitored.n_samples:,} samples so far")
    prints_prometheus = prometheus == "-"
    service = MonitorService(monitored, state, None if prints_prometheus else prometheus, on_message=console.message)
    max_line = round(max_line_mb * 2**20)
    title = f"Monitor of {calibrator.name}"
    source: AbstractContextManager[Iterator[StreamBatch]]
    if address is not None:
        from driftcal.cli.commands.monitor_listen import listening

        max_body = round(max_body_mb * 2**20)
        source = listening(
            address, service, console, timed=timed, max_body=max_body, max_line=max(max_line, max_body), title=title
        )
    else:
        source = nullcontext(
            read_batches(
                paths, monitored.settings.score_type, n_classes=monitored.n_classes, timed=timed, max_line=max_line
            )
        )
    before, stopped = _Progress.of(monitored), False
    with _interrupt_on_signals():
        try:
            with source as batches, window_printer(console, prints_prometheus) as show:
                for window in service.run(batches):
                    show(window)
        except KeyboardInterrupt:
            stopped = True
            console.message("stopped")
        if service.changed:  # the signal arrived during the last write
            service.write()
    if report is not None:
        from driftcal.report.timeline import write_timeline

        write_timeline(monitored, report, title=title)
        console.message(f"timeline in {report}")
    if prints_prometheus:
        print(service.prometheus_text(), end="")
    else:
        _print_summary(monitored, as_json=as_json)
    if address is None and not stopped:
        _check_progress(monitored, before, paths)


@dataclass(frozen=True)
class _Progress:
    """How far a monitor has come: its samples, those that wait for a label, and samples that could not be used, by reason."""

    n_samples: int
    n_pending: int
    rejected: Counter[str]

    @classmethod
    def of(cls, monitored: Monitor) -> _Progress:
        from driftcal.monitor.summary import LABEL_REASONS

        rejected = {reason: n for reason, n in monitored.rejected.items() if reason not in LABEL_REASONS}
        return cls(monitored.n_samples, len(monitored.pending), Counter(rejected))


def _check_progress(monitored: Monitor, before: _Progress, paths: list[str]) -> None:
    """Refuse inputs of which nothing could be used, neither a sample nor a late label."""
    from driftcal.errors import DataError
    from driftcal.monitor.usable_samples import PROBABILITIES

    now = _Progress.of(monitored)
    rejected = now.rejected - before.rejected
    if not rejected or (now.n_samples, now.n_pending) != (before.n_samples, before.n_pending):
        return
    n_classes, score_type = monitored.n_classes, monitored.settings.score_type
    way_out = (
        "Pass --score-type probabilities."
        if PROBABILITIES in rejected
        else "Pass finite scores of all classes, and times if windows are times. In a CSV file name the other columns: "
        "y for labels, id, time, and group for what is no score."
    )
    raise DataError(
        f"{', '.join(paths)} must hold {n_classes} {score_type} per sample; no sample could be used: "
        f"{', '.join(f'{count:,} {reason}' for reason, count in sorted(rejected.items()))}. {way_out}"
    )


def _open_monitor(
    context: typer.Context,
    calibrator: Path,
    state: Path | None,
    settings: dict[str, Any],
    *,
    timed: bool,
    listens: bool,
) -> Monitor:
    """The monitor that the state file holds, or a new one."""
    from driftcal.errors import DataError
    from driftcal.monitor.monitor import Monitor
    from driftcal.monitor.serving.journal import Journal

    if state is not None and not listens and (records := Journal(state).unwritten()):
        raise DataError(
            f"{state} must hold all samples of its last run to be continued; {len(records):,} requests are only in its journal, "
            "because a listening monitor was killed. Start it once more with --listen, and stop it."
        )
    if state is None or not state.exists():
        return Monitor(calibrator, **settings)
    monitored = Monitor.load(state, calibrator)
    _check_settings(context, settings, timed, monitored)
    return monitored


def _print_summary(monitored: Monitor, *, as_json: bool) -> None:
    summary = monitored.summary()
    if as_json:
        print(json.dumps(plain_numbers({"summary": summary.to_dict()})))
        return
    for line in summary.lines():
        print(printable(line))


def _parse_window_size(text: str) -> tuple[float, bool]:
    """The length of a window, and whether it is a time."""
    timed = text[-1:] in _UNITS
    try:
        size = float(text[:-1]) * _UNITS[text[-1]] if timed else float(text)
        if size > 0:
            return size, timed
        raise ValueError
    except ValueError:
        raise typer.BadParameter(
            f"must be like 500, 90s, 15m or 1h; it is {text!r}.", param_hint="--window-size"
        ) from None


def _check_settings(context: typer.Context, settings: dict[str, Any], timed: bool, monitored: Monitor) -> None:
    """Refuse options on the command line that differ from the settings of the state that is continued."""
    for name, value in settings.items():
        source, state_value = context.get_parameter_source(name), getattr(monitored.settings, name)
        is_count_in_state = name == "window_size" and timed and monitored.timed is False
        if source is not None and source.name == "COMMANDLINE" and (value != state_value or is_count_in_state):
            expected = state_value
            if state_value is None:
                expected = "the default"
            elif is_count_in_state:
                expected = f"{state_value:g} samples"
            raise typer.BadParameter(
                f"must be that of the state, {expected}; it is {context.params[name]}. "
                "Leave it out, or start with another --state.",
                param_hint="--" + name.replace("_", "-"),
            )


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP act like Ctrl-C, so that a service that is stopped writes its files."""
    n_received = 0

    def stop() -> None:
        nonlocal n_received
        n_received += 1
        if n_received == 1:  # a second signal must not interrupt the writing of the files
            raise KeyboardInterrupt

    with on_signals(("SIGTERM", "SIGHUP"), stop):
        yield
