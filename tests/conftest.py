"""Being here makes the helpers beside it importable from every folder of tests."""


def pytest_terminal_summary(terminalreporter):
    """What tests measured on the way (`record_property`), for whoever reads the log."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
