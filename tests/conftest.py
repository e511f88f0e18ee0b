"""Being here makes the helpers beside it importable from every folder of tests."""

import gc

from hypothesis import HealthCheck, settings

# A machine under load is no defect: neither the time of an example nor that of drawing it fails a test.
settings.register_profile("without clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("without clock")

#: Files that take longest, most of it waiting for other processes: begun last, one process would have to finish them alone.
LONGEST = ["test_engines.py", "test_experiments.py", "test_resume.py", "test_examples.py", "test_export_parity.py"]


def pytest_collection_modifyitems(items):
    """The longest files first; pytest itself sorts what the command line names."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONGEST)))


def pytest_collection_finish():
    """What was imported stays: looking through it for garbage again and again is a tenth of the time of compiling kernels."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def pytest_terminal_summary(terminalreporter):
    """What tests measured on the way (`record_property`), for whoever reads the log."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
