"""The paper's figures as data, and the tables that show them."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftcal.bench import published
from driftcal.bench.outcome import Table
from driftcal.report.paper import table_csv, table_latex, table_markdown

NETWORKS = [
    *(("cifar10", name) for name in ("vgg19", "resnet50", "densenet121", "mobilenetv2")),
    *(("imagenet", n) for n in ("resnet50", "resnet152", "vgg19", "densenet169", "efficientnetb7", "xception", "mobilenetv2")),
]  # fmt: skip


@pytest.mark.parametrize(("data", "network"), NETWORKS)
def test_the_papers_tables_agree_with_each_other(data, network):
    means, delta = (published.published(table, data, network) for table in ("table1", "delta"))
    assert len(means) == 11
    for method, printed in delta.items():
        # rounded to three decimals; the paper computed from more
        standard, perturbed = means[method], means[f"{method}-p"]
        low = 1 - (perturbed + 0.0005) / (standard - 0.0005)
        high = 1 - (perturbed - 0.0005) / (standard + 0.0005)
        assert low - 0.005 <= printed <= high + 0.005, (method, printed, low, high)


def test_tables_name_their_place_and_what_is_missing_is_missing():
    assert published.where("val-shift").startswith("Appendix")
    assert published.published("val-shift", "cifar10", "vgg19")["ets-h"] == 0.096
    assert published.published("table1", "digits", "mlp") == {}
    assert len(published.published_accuracy("imagenet")) == 18
    assert published.published_accuracy("cifar10") == {}
    assert "CVPR 2021" in published.source()


def test_best_is_bold_and_what_is_missing_is_a_dash():
    rows = [{"net": "a_b", "x": 0.1234, "y": 0.1233, "x_low": 0.1, "x_high": 0.2}, {"net": "c", "x": -0.5}]
    table = Table("t", "T", {"net": "Net", "x": "X", "y": "Y"}, rows, ("x", "y"), intervals=True)
    text = table_markdown(table)
    assert "| a\\_b | 0.123 \\[0.100, 0.200\\] | 0.123 |" in text, "equal as printed: nobody wins"
    assert "| c | −0.500 | – |" in text
    better = Table(
        "t", "T", {"net": "Net", "x": "X", "y": "Y"}, [{"net": "a", "x": 0.1, "y": 0.2}], ("x", "y"), highest=True
    )
    assert "**0.200**" in table_markdown(better)
    assert "\\textbf{0.200}" in table_latex(better)
    parsed = list(csv.DictReader(io.StringIO(table_csv(table))))
    assert parsed[0]["x_high"] == "0.2"
    assert parsed[1]["y"] == ""


@given(st.text(min_size=1))
def test_any_name_stays_in_its_cell(name):
    table = Table("t", name, {"net": name, "x": "X"}, [{"net": name, "x": 0.5}])
    assert len(table_markdown(table).splitlines()) == 3
    assert len(table_latex(table).splitlines()) == 8
    assert len(list(csv.reader(io.StringIO(table_csv(table))))) == 2


def test_the_data_file_is_the_only_place_of_these_numbers():
    document = published._document()
    assert json.dumps(document)  # plain values
    assert set(document) == {"source", "tables"}
    assert all({"where", "metric", "values"} == set(table) for table in document["tables"].values())
