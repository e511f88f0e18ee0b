"""Dictionaries of arrays from raw data through tune, evaluate, save, load and report: torch, ONNX, transformers, functions."""

import numpy as np
import pytest

import driftcal
from driftcal.data import open_source
from driftcal.errors import DataError, InputError, ModelError
from driftcal.shifts import SHIFTS, Suite

N, LENGTH = 240, 6
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % 3
#: Tokens 2 to 4 speak for the classes 0 to 2; 0 is padding, 1 unknown.
TOKENS = np.where(RNG.random((N, LENGTH)) < 0.6, LABELS[:, None] + 2, RNG.integers(1, 5, (N, LENGTH))).astype(np.int64)
MASK = (np.arange(LENGTH) < RNG.integers(3, LENGTH + 1, N)[:, None]).astype(np.int64)
INPUTS = {"input_ids": TOKENS * MASK, "attention_mask": MASK}


def part(low, high):
    return {name: values[low:high] for name, values in INPUTS.items()}


def scores(batch):
    """Counts of the tokens of each class, of a dictionary with both arrays."""
    counts = [((batch["input_ids"] == token) & (batch["attention_mask"] > 0)).sum(axis=1) for token in (2, 3, 4)]
    return 0.9 * np.stack(counts, axis=1).astype(np.float32)


def unknown_tokens(batch, level, *, seed, indices):
    """Tokens become unknown."""
    assert set(batch) == set(INPUTS)
    draws = np.stack([np.random.default_rng([seed, i]).random(LENGTH) for i in indices])
    ids = np.where((draws < 0.18 * level) & (batch["input_ids"] > 0), 1, batch["input_ids"])
    return {**batch, "input_ids": ids}


@pytest.fixture
def shift():
    yield driftcal.register_shift("test_unknown_tokens", unknown_tokens, levels=range(6))
    del SHIFTS["test_unknown_tokens"]


def torch_module():
    import torch

    class Counts(torch.nn.Module):
        def forward(self, input_ids, attention_mask):
            kept = [((input_ids == token) & (attention_mask > 0)).sum(dim=1) for token in (2, 3, 4)]
            return 0.9 * torch.stack(kept, dim=1).float()

    return Counts()


def onnx_model():
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT)]
    for token in (2, 3, 4):
        nodes += [
            helper.make_node("Constant", [], [f"t{token}"], value_int=token),
            helper.make_node("Equal", ["input_ids", f"t{token}"], [f"is{token}"]),
            helper.make_node("Cast", [f"is{token}"], [f"one{token}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"one{token}", "mask"], [f"kept{token}"]),
            helper.make_node("ReduceSum", [f"kept{token}", "axis"], [f"sum{token}"]),
        ]
    nodes += [
        helper.make_node("Concat", ["sum2", "sum3", "sum4"], ["counts"], axis=1),
        helper.make_node("Constant", [], ["factor"], value_float=0.9),
        helper.make_node("Mul", ["counts", "factor"], ["logits"]),
    ]
    nodes.insert(0, helper.make_node("Constant", [], ["axis"], value_ints=[1]))
    ids, mask = (helper.make_tensor_value_info(name, TensorProto.INT64, ["n", LENGTH]) for name in INPUTS)
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 3])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph(nodes, "g", [ids, mask], [output]), opset_imports=opset, ir_version=9)


MODELS = {
    "function": lambda: driftcal.open_model(scores, name="counts"),
    "function without a name": lambda: driftcal.open_model(lambda batch: scores(batch)),
    "torch": torch_module,
    "onnx": onnx_model,
}


@pytest.mark.parametrize("name", MODELS)
def test_from_arrays_to_a_report(name, shift, tmp_path):
    model = MODELS[name]()
    calibrated = driftcal.tune(model, part(0, 140), LABELS[:140], method="ts", shift=shift)
    assert calibrated.tuned_on == "test_unknown_tokens"
    accuracies = [level["accuracy"] for level in calibrated.perturbation["levels"]]
    assert accuracies[0] > accuracies[3] + 0.1
    test = part(140, N), LABELS[140:]
    results = driftcal.evaluate(calibrated, *test, suite=Suite("tokens", "unknown tokens", (shift,)), n_resamples=0)
    assert {row.shift for row in results.rows} >= {"test_unknown_tokens"}
    path = calibrated.save(tmp_path / "cal.safetensors")
    loaded = driftcal.CalibratedModel.load(path, model, inputs=part(5, 9))
    np.testing.assert_array_equal(loaded.predict_proba(part(0, 5)), calibrated.predict_proba(part(0, 5)))
    np.testing.assert_allclose(calibrated.logits(part(0, 5)), scores(part(0, 5)), atol=1e-6)
    page = driftcal.write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "test_unknown_tokens" in page


def test_without_a_suite_of_ones_own_the_evaluation_is_in_domain():
    calibrated = driftcal.tune(MODELS["function"](), part(0, 140), LABELS[:140], shift=None)
    results = driftcal.evaluate(calibrated, part(140, N), LABELS[140:], n_resamples=0)
    assert {row.shift for row in results.rows} == {"in domain"}
    with pytest.raises(
        InputError, match=r"holds dictionaries, and the suite is 'affine'\. Make one of registered shifts"
    ):
        driftcal.evaluate(calibrated, part(140, N), LABELS[140:], suite="affine")


def test_tokens_never_get_noise_silently():
    with pytest.raises(InputError) as refused:
        driftcal.tune(MODELS["function"](), part(0, 140), LABELS[:140])
    for words in ("input_ids int64 (n, 6)", "whole numbers", "register_shift", "suite 'text'", "shift=None"):
        assert words in str(refused.value)
    with pytest.raises(InputError, match="it is 'text_noise'"):
        driftcal.tune(MODELS["function"](), part(0, 140), LABELS[:140], shift="text_noise")


def test_a_shift_keeps_names_and_types():
    wrong = driftcal.register_shift(
        "test_wrong", lambda batch, level: {"input_ids": batch["input_ids"]}, levels=range(3)
    )
    try:
        with pytest.raises(InputError, match="must keep the arrays of its inputs"):
            wrong(part(0, 5), 1)
        unchanged = wrong(part(0, 5), 0)
        np.testing.assert_array_equal(unchanged.arrays["input_ids"], INPUTS["input_ids"][:5])
    finally:
        del SHIFTS["test_wrong"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: open_source(({"a": np.zeros(3), "b": np.zeros(4)}, [0, 1, 0])), InputError, "'a' has 3, 'b' has 4"),
        (lambda: open_source(({"a": [["x"], ["y"]]}, [0, 1])), InputError, "pass texts as a list"),
        (lambda: open_source(({}, [0, 1])), InputError, "it holds nothing"),
        (lambda: driftcal.tune(MODELS["function"](), part(0, 9)), InputError, "y must hold one label per input"),
        (lambda: driftcal.open_model(onnx_model()).logits(TOKENS[:, :3].astype(float)), ModelError, "'input_ids': int64"),
        (lambda: driftcal.open_model(onnx_model()).logits({"input_ids": TOKENS}), ModelError, "names of the ONNX model"),
        (lambda: driftcal.open_model(torch_module()).logits({"input_ids": TOKENS}), ModelError, "under its names"),
    ],
)  # fmt: skip
def test_mistakes_name_the_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_scikit_learn_model_takes_one_table():
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(TOKENS, LABELS)
    with pytest.raises(InputError, match="Open a function of the dictionary"):
        driftcal.open_model(model).logits(part(0, 5))


def test_loaders_and_data_sets_of_dictionaries():
    import datasets
    import torch
    from torch.utils.data import DataLoader

    rows = [
        {**{name: torch.tensor(values[i]) for name, values in INPUTS.items()}, "labels": int(LABELS[i])}
        for i in range(60)
    ]

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(rows)

        def __getitem__(self, i):
            return rows[i]

    class Pairs(Rows):
        def __getitem__(self, i):
            return {name: rows[i][name] for name in INPUTS}, rows[i]["labels"]

    columns = {name: values[:60].tolist() for name, values in INPUTS.items()}
    hugging_face = datasets.Dataset.from_dict({**columns, "label": LABELS[:60].tolist()})
    sources = [
        open_source((part(0, 60), LABELS[:60])),
        open_source(DataLoader(Rows(), batch_size=16, shuffle=True)),
        open_source(Rows()),
        open_source(Pairs()),
        open_source(hugging_face, inputs=["input_ids", "attention_mask"]),
    ]
    for source in sources:
        assert source.kind == "dictionaries"
        read = source.inputs(np.array([3, 7]))
        assert {name: values.tolist() for name, values in read.arrays.items()} == {
            name: values[[3, 7]].tolist() for name, values in INPUTS.items()
        }
        np.testing.assert_array_equal(source.labels, LABELS[:60])
    assert open_source((part(1, 60), LABELS[1:60])).fingerprint != sources[0].fingerprint
    with pytest.raises(DataError, match="a list of columns is a dictionary"):
        open_source(hugging_face)


def test_tokens_of_a_transformers_model_go_to_it_by_name():
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=3
    )
    model = transformers.BertForSequenceClassification(config).eval()
    with torch.inference_mode():
        expected = model(**{name: torch.tensor(values[:9]) for name, values in INPUTS.items()}).logits.numpy()
    encoding = transformers.BatchEncoding({name: torch.tensor(values[:9]) for name, values in INPUTS.items()})
    np.testing.assert_allclose(driftcal.open_model(model).logits(encoding), expected, atol=1e-6)
