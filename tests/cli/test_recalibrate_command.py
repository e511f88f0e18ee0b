"""driftcal recalibrate: before and after on held-out samples, a new file, or one line with the reason why not."""

import json

import numpy as np
import pytest

from driftcal import load, make_calibrator


def labelled(path, n, temperature, seed, **more):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, 4)).astype(np.float32)
    y = np.argmax(logits / temperature + rng.gumbel(size=logits.shape), axis=1)
    np.savez(path, logits=logits, y=y, **more)
    return logits, y


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_calibrator("ts").fit(*labelled("old.npz", 800, 1.5, 1)).save("cal.safetensors")
    labelled("new.npz", 300, 3, 2)
    return tmp_path


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr("driftcal.pipeline.recalibrating.recalibrate.N_RESAMPLES", 100)


def names(folder):
    return sorted(item.name for item in folder.iterdir())


def test_before_and_after_are_printed_with_the_paths(files, run):
    ran = run("recalibrate", "cal.safetensors", "new.npz")
    assert ran.code == 0, ran.err
    assert ran.out.strip() == "cal-2.safetensors"
    for text in (
        "300 held-out samples",
        "before",
        "after",
        "ECE",
        "Brier score",
        "accuracy",
        "old calibrator is in cal.saf",
    ):
        assert text in ran.err
    assert load("cal.safetensors").temperature_ < load("cal-2.safetensors").temperature_
    printed = json.loads(run("recalibrate", "cal.safetensors", "new.npz", "-o", "mine.safetensors", "--json", "-q").out)
    assert printed["after"]["ece"] < printed["before"]["ece"]
    low, high = printed["before"]["ece_interval"]
    assert low < printed["before"]["ece"] < high
    assert (printed["calibrator"], printed["old_calibrator"]) == ("mine.safetensors", "cal.safetensors")
    assert (files / "mine.safetensors").read_bytes() == (files / "cal-2.safetensors").read_bytes()
    quiet = run("recalibrate", "cal.safetensors", "new.npz", "--quiet")
    assert (quiet.out.strip(), quiet.err) == ("cal-3.safetensors", "")


def test_the_old_calibrator_is_kept_when_its_file_is_replaced(files, run):
    before = (files / "cal.safetensors").read_bytes()
    ran = run("recalibrate", "cal.safetensors", "new.npz", "-o", "cal.safetensors")
    assert ran.code == 0, ran.err
    assert (files / "cal-2.safetensors").read_bytes() == before != (files / "cal.safetensors").read_bytes()


def test_worse_is_refused_with_code_1(files, run):
    logits, _ = labelled("good.npz", 300, 1.5, 3)
    # labels of a model that is almost always correct: a fit on them is far more confident
    y = np.where(np.random.default_rng(0).random(300) < 0.05, 0, logits.argmax(axis=1))
    np.savez("misleading.npz", logits=logits, y=y)
    before = names(files)
    ran = run("recalibrate", "cal.safetensors", "good.npz", "--with", "misleading.npz", "--weight", "0.2")
    assert ran.code == 1
    assert "Brier score rises" in ran.err
    assert "before" in ran.err, "the comparison is shown although the result is refused"
    assert ran.out == ""
    assert names(files) == before
    dry = run(
        "recalibrate",
        "cal.safetensors",
        "good.npz",
        "--with",
        "misleading.npz",
        "--weight",
        "0.2",
        "--dry-run",
        "--json",
    )
    assert dry.code == 0
    printed = json.loads(dry.out)
    assert printed["worse"]
    assert printed["would_write"] == []


def test_a_dry_run_compares_and_writes_nothing(files, run):
    before = names(files)
    printed = json.loads(run("recalibrate", "cal.safetensors", "new.npz", "--dry-run", "--json").out)
    assert printed["would_write"] == ["cal-2.safetensors"]
    assert "would write cal-2" in run("recalibrate", "cal.safetensors", "new.npz", "--dry-run").out
    assert names(files) == before


def test_labels_by_name_and_probabilities(files, run):
    logits, y = labelled("new.npz", 300, 3, 2)
    names = np.array(["owl", "ant", "bee", "cow"])
    load("cal.safetensors").save("named.safetensors", metadata={"class_names": names.tolist()})
    np.savez("named.npz", logits=logits, y=names[y])
    printed = [
        json.loads(run("recalibrate", "named.safetensors", data, "--dry-run", "--json").out)["data"]
        for data in ("new.npz", "named.npz")
    ]
    assert printed[0] == printed[1]
    np.savez("p.npz", logits=load("cal.safetensors").predict_proba(logits), y=y)
    ran = run("recalibrate", "cal.safetensors", "p.npz")
    assert (ran.code, ran.err.count("\n"), "from_probabilities" in ran.err) == (1, 1, True)


def test_inputs_with_the_model(tuned, run):
    from tiny_model import make_data

    make_data("new.npz", 80, 5)
    arguments = (
        "recalibrate",
        "cal.safetensors",
        "new.npz",
        "--model",
        "cli_net:make",
        "--with",
        "val.npz",
        "--json",
        "--dry-run",
    )
    printed = json.loads(run(*arguments).out)
    assert (printed["n_samples"], printed["weight"], len(printed["old_data"])) == (80, 0.5, 64)
    ran = run("recalibrate", "cal.safetensors", "new.npz", "--model", "cli_net:make", "--weight", "0")
    assert ran.code == 0, ran.err
    assert "--model" in run("recalibrate", "cal.safetensors", "new.npz").err


def test_bad_files_are_one_line(files, run):
    labelled("few.npz", 10, 3, 2)
    (files / "broken.npz").write_bytes(b"PK no zip")
    np.save("single.npy", np.zeros(3))
    np.savez("unlabelled.npz", logits=np.zeros((60, 4)))
    for data, message in [
        ("few.npz", "at least 50"),
        ("none.npz", "no file"),
        ("broken.npz", "plain arrays"),
        ("single.npy", "single array"),
        ("unlabelled.npz", "must hold an array named 'y' with labels"),
    ]:
        ran = run("recalibrate", "cal.safetensors", data)
        assert ran.code == 1
        assert message in ran.err
        assert ran.err.count("\n") == 1
    assert run("recalibrate", "cal.safetensors", "new.npz", "-o", "new.npz").code == 1
    assert run("recalibrate", "cal.safetensors", "new.npz", "--weight", "2").code == 1
    assert [name for name in names(files) if name.endswith("safetensors")] == ["cal.safetensors"]


def test_the_stream_of_a_monitor_is_labelled_data(files, run):
    """Labels in the line, or later under the id; the result is that of the same samples in a .npz file."""
    logits, y = labelled("again.npz", 300, 3, 2)
    lines, late = [], []
    for i, (scores, label) in enumerate(zip(logits.tolist(), y.tolist(), strict=True)):
        if i % 3:
            lines.append({"logits": scores, "label": label})
        else:
            lines.append({"logits": scores, "id": i})
            late.append({"id": i, "label": label})
    garbage = ["no JSON", json.dumps({"logits": [1, 2, 3, 4]}), json.dumps({"id": "unknown", "label": 1})]
    text = "\n".join([*map(json.dumps, lines), *map(json.dumps, late), *garbage])
    (files / "stream.jsonl").write_text(text, encoding="utf-8")
    ran = run("recalibrate", "cal.safetensors", "stream.jsonl", "--weight", "1", "-o", "a.safetensors")
    assert ran.code == 0, ran.err
    assert "300 labelled samples; left out: 1 samples without a label" in ran.err
    assert run("recalibrate", "cal.safetensors", "again.npz", "--weight", "1", "-o", "b.safetensors").code == 0
    assert load("a.safetensors").temperature_ == pytest.approx(load("b.safetensors").temperature_, rel=1e-6)
    probabilities = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    rows = [{"probabilities": p, "label": label} for p, label in zip(probabilities.tolist(), y.tolist(), strict=True)]
    (files / "probabilities.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert (
        run("recalibrate", "cal.safetensors", "probabilities.jsonl", "--weight", "1", "-o", "c.safetensors").code == 0
    )
    assert load("c.safetensors").temperature_ == pytest.approx(load("a.safetensors").temperature_, rel=1e-5)
    (files / "unlabelled.jsonl").write_text('{"logits": [1, 2, 3, 4]}\n', encoding="utf-8")
    ran = run("recalibrate", "cal.safetensors", "unlabelled.jsonl")
    assert ran.code
    assert "none of its 1 samples has one" in ran.err
