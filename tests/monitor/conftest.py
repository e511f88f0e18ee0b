import pytest
from monitor_scenario import MonitorScenario


@pytest.fixture(scope="session")
def scenario():
    return MonitorScenario()
