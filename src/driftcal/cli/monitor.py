"""driftcal monitor"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Talk, plain_numbers, printable

if TYPE_CHECKING:
    from driftcal.monitor.states import WindowReport
    from driftcal.monitor.summary import Summary

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Windows that a live view shows; the newest is the last line.
_SHOWN = 15


def monitor(
    context: typer.Context,
    calibrator: Annotated[Path, typer.Argument(help="The calibrator that tune wrote.", metavar="CALIBRATOR")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files (.npz, .npy, .csv, lines of JSON), or - for lines of JSON on stdin.", metavar="[INPUT]..."
        ),
    ] = None,
    inputs: Annotated[
        str, typer.Option(help="What the rows are: logits, or the model's own probabilities before calibration.")
    ] = "logits",
    every: Annotated[
        str,
        typer.Option(
            help="A window: so many rows, or so much time (90s, 15m, 1h, 1d); lines of stdin without a time have that of their arrival."
        ),
    ] = "500",
    estimator: Annotated[
        str | None,
        typer.Option(
            help="confidence, atc, doc, ladder or middle.", show_default="the best on the ladder, chosen by tune"
        ),
    ] = None,
    false_alarm: Annotated[
        float, typer.Option(help="Share of clean windows that may be called anything but ok.")
    ] = 0.001,
    low: Annotated[float, typer.Option(help="A confidence below this is low.")] = 0.5,
    state: Annotated[
        Path | None, typer.Option(help="Keep everything seen in this file; go on from it where it exists.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Draw the timeline as one HTML page.", metavar="FILE.html")
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(help="Keep figures in Prometheus' text format in this file; - prints them in the end."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Watch a calibrated model's answers: accuracy without labels, drift, and calibration once labels come.

    Reads files or a stream of JSON lines such as {"logits": [1.2, 0.3], "time": 1700000000, "id": "a1", "label": 1};
    only the logits (or probabilities) are needed, and a later line {"id": "a1", "label": 1} brings a label that comes
    late. What cannot be read is counted and reported, never fatal.

    \b
      driftcal monitor cal.safetensors logits.npz --report timeline.html
    \b
    A live stream, hour by hour, that survives a restart and feeds Prometheus:
      tail -F answers.jsonl | driftcal monitor cal.safetensors --every 1h \\
        --state monitor.safetensors --prometheus driftcal.prom
    \b
    One JSON object per window, and a summary in the end:
      driftcal monitor cal.safetensors logits.npy --json
    """
    from driftcal.monitor.monitor import Monitor
    from driftcal.monitor.watch import Watch, batches_of

    talk = Talk(as_json, quiet)
    span, timed = _span(every)
    settings: dict[str, Any] = {
        "inputs": inputs,
        "every": span,
        "estimator": estimator,
        "false_alarm": false_alarm,
        "low": low,
    }
    goes_on = state is not None and state.exists()
    watched = Monitor.load(state, calibrator) if goes_on and state is not None else Monitor(calibrator, **settings)
    if goes_on:
        _same(context, settings, timed, watched)
    if dry_run:
        places = [str(place) for place in (state, report, prometheus) if place is not None and str(place) != "-"]
        read = [place if place == "-" or Path(place).exists() else f"{place} (not there)" for place in sources or ["-"]]
        words = [f"would read {place}" for place in read] + [f"would write {place}" for place in places]
        talk.give({"would_read": read, "would_write": places}, *words)
        return
    if goes_on:
        talk.say(f"going on from {state} with its settings: {watched.rows:,} rows seen before")
    watch = Watch(watched, state, None if prometheus == "-" else prometheus)
    silent = prometheus == "-"
    batches = batches_of(sources or ["-"], watched.settings.inputs, timed=timed)
    with _stoppable():
        try:
            with _shown(talk, silent) as show:
                for window in watch.run(batches):
                    show(window)
        except KeyboardInterrupt:
            talk.say("stopped")
        if watch.changed:  # the stop came while the last rows were being written
            watch.write()
    summary = watched.summary()
    if report is not None:
        _draw(watched, summary, report, calibrator)
        talk.say(f"timeline in {report}")
    if silent:
        print(watch.figures(), end="")
    elif as_json:
        print(json.dumps(plain_numbers({"summary": summary.to_dict()})))
    else:
        for line in _summary_lines(summary):
            print(printable(line))


def _span(text: str) -> tuple[float, bool]:
    """How long a window is, and whether that is time."""
    timed = text[-1:] in _UNITS
    try:
        span = float(text[:-1]) * _UNITS[text[-1]] if timed else float(text)
        if span > 0:
            return span, timed
        raise ValueError
    except ValueError:
        raise typer.BadParameter(f"must be like 500, 90s, 15m or 1h; it is {text!r}.", param_hint="--every") from None


def _same(context: typer.Context, settings: dict[str, Any], timed: bool, watched: Any) -> None:
    """Refuse settings that were asked for and are not those of the state that goes on: they could not be heeded."""
    for name, value in settings.items():
        source, kept = context.get_parameter_source(name), getattr(watched.settings, name)
        counts = name == "every" and timed and watched.timed is False
        if source is not None and source.name == "COMMANDLINE" and (value != kept or counts):
            own = "the default" if kept is None else f"{kept:g} rows" if counts else kept
            raise typer.BadParameter(
                f"must be that of the state, {own}; it is {context.params[name]}. Leave it out, or start with another --state.",
                param_hint="--" + name.replace("_", "-"),
            )


@contextmanager
def _stoppable() -> Iterator[None]:
    """Inside, a service that is stopped (SIGTERM) or loses its terminal (SIGHUP) ends as if by Ctrl-C: what it saw is written."""
    # where nohup has SIGHUP ignored, it stays so; only the main thread may say what a signal does
    there = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heeded = [number for number in there if signal.getsignal(number) != signal.SIG_IGN]
    seen: list[int] = []

    def stop(number: int, _: Any) -> None:
        seen.append(number)
        if len(seen) == 1:  # the second must not end the writing that the first began
            raise KeyboardInterrupt

    allowed = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, stop) for number in heeded} if allowed else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _draw(watched: Any, summary: Summary, report: Path, calibrator: Path) -> None:
    from driftcal.report.timeline import write_timeline

    windows = [window.to_dict() for window in watched.windows()]
    write_timeline(
        windows, summary.to_dict(), report, title=f"Monitor of {calibrator.name}", class_names=watched.class_names
    )


@contextmanager
def _shown(talk: Talk, silent: bool) -> Iterator[Any]:
    """How windows appear: JSON lines, a table that renews itself on a terminal, or a line each."""
    if silent:
        yield lambda window: None
    elif talk.as_json:
        yield lambda window: print(json.dumps(plain_numbers(window.to_dict())), flush=True)
    elif sys.stdout.isatty():
        from rich.live import Live

        seen: list[WindowReport] = []
        with Live(_table(seen), refresh_per_second=4) as live:

            def renew(window: WindowReport) -> None:
                seen.append(window)
                del seen[:-_SHOWN]
                live.update(_table(seen))

            yield renew
    else:
        yield lambda window: print(printable(_line(window)), flush=True)


def _cells(window: WindowReport) -> list[str]:
    known = window.accuracy is not None and window.interval is not None
    return [
        f"{window.begin:,.10g}",
        f"{window.rows:,}",
        window.state,
        f"{window.accuracy:.3f} ({window.interval[0]:.2f}–{window.interval[1]:.2f})"
        if window.accuracy is not None and window.interval is not None
        else "–",
        f"{window.overconfidence:+.3f}" if known else "–",
        window.looks_like or "–",
        f"{window.low_confidence:.1%}",
    ]


_HEAD = ("from", "rows", "state", "estimated accuracy", "overconfidence", "looks like", "unsure")


def _line(window: WindowReport) -> str:
    begin, rows, state, accuracy, over, looks, low = _cells(window)
    return f"{begin}: {state}, {rows} rows, accuracy {accuracy}, overconfidence {over}, {looks}, unsure {low}"


def _table(windows: list[WindowReport]) -> Any:
    from rich.table import Table

    table = Table(*_HEAD, box=None, pad_edge=False)
    for window in windows:
        table.add_row(*_cells(window))
    return table


def _summary_lines(summary: Summary) -> list[str]:
    lines = [f"{summary.rows:,} rows in {summary.windows:,} windows; newest: {summary.state}"]
    if summary.rejected:
        lines.append("rejected: " + ", ".join(f"{n:,} {reason}" for reason, n in summary.rejected.items()))
    if summary.labelled:
        found = summary.labelled
        lines.append(
            f"{found['rows']:,} labels: accuracy {found['accuracy']:.3f}, ECE {found['ece']:.3f}; calibration: {summary.calibration}"
        )
    return [*lines, summary.recommendation]
