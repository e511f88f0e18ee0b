"""The numbers that the paper prints, as data."""

import json

import pytest

from driftcal.paper import published

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
        clean_tuned, perturbed = means[method], means[f"{method}-p"]
        low = 1 - (perturbed + 0.0005) / (clean_tuned - 0.0005)
        high = 1 - (perturbed - 0.0005) / (clean_tuned + 0.0005)
        assert low - 0.005 <= printed <= high + 0.005, (method, printed, low, high)


def test_tables_have_their_name_in_the_paper_and_some_networks_have_no_numbers():
    assert published.where("val-shift").startswith("Appendix")
    assert published.published("val-shift", "cifar10", "vgg19")["ets-h"] == 0.096
    assert published.published("table1", "digits", "mlp") == {}
    assert len(published.published_accuracy("imagenet")) == 18
    assert published.published_accuracy("cifar10") == {}
    assert "CVPR 2021" in published.citation()


def test_the_data_file_has_a_name_a_metric_and_values_for_each_table():
    document = published._document()
    assert json.loads(json.dumps(document)) == document
    assert set(document) == {"source", "tables"}
    assert all({"where", "metric", "values"} == set(table) for table in document["tables"].values())
