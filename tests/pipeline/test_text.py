"""Texts from raw data through tune, evaluate, save, load and report: scikit-learn, transformers, functions, Hugging Face."""

import itertools

import numpy as np
import pytest

import driftcal
from driftcal.data import open_source
from driftcal.errors import InputError

CLASSES = ("negative", "positive")
WORDS = {
    "negative": ["awful", "boring", "poor", "sad", "dull"],
    "positive": ["great", "lovely", "fun", "bright", "superb"],
}
FILLERS = ["the film", "a plot", "its cast", "this scene", "every line", "the music", "an ending"]


def sentences(n, seed):
    """Sentences of mostly one sentiment, with their labels as names."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        label = CLASSES[rng.integers(2)]
        other = CLASSES[1 - CLASSES.index(label)]
        parts = [
            f"{rng.choice(FILLERS)} is {rng.choice(WORDS[label if rng.random() < 0.75 else other])}" for _ in range(5)
        ]
        texts.append(", ".join(parts))
        labels.append(label)
    return texts, labels


TRAIN, VAL, TEST = sentences(400, 0), sentences(300, 1), sentences(200, 2)


@pytest.fixture(scope="module")
def pipeline():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(), LogisticRegression(C=100)).fit(*TRAIN)


def test_from_texts_to_a_report(pipeline, tmp_path):
    calibrated = driftcal.tune(pipeline, *VAL, method="ts", n_levels=4)
    assert calibrated.tuned_on == "text_noise"
    accuracies = [level["accuracy"] for level in calibrated.perturbation["levels"]]
    assert accuracies[0] > 0.8 > 0.6 > accuracies[-1]
    results = driftcal.evaluate(calibrated, *TEST, n_resamples=0)
    assert {row.shift for row in results.rows} >= {"text_typos", "text_truncation"}
    driftcal.write_report(results, tmp_path / "report.html")
    assert "text_typos" in (tmp_path / "report.html").read_text()
    path = calibrated.save(tmp_path / "cal.safetensors")
    loaded = driftcal.CalibratedModel.load(path, pipeline)
    np.testing.assert_array_equal(loaded.predict_proba(TEST[0]), calibrated.predict_proba(TEST[0]))
    assert calibrated.predict(TEST[0][:3]).tolist() == pipeline.predict(TEST[0][:3]).tolist()


def test_a_function_of_texts_and_other_suites(pipeline):
    model = driftcal.open_model(
        lambda texts: pipeline.decision_function(list(texts)), class_names=CLASSES, name="sentiment"
    )
    calibrated = driftcal.tune(model, *VAL, method="ts", shift=None)
    assert calibrated.metadata["accuracy"] > 0.8
    with pytest.raises(InputError, match=r"holds text, and the suite is 'affine'. Take 'text'"):
        driftcal.evaluate(calibrated, *TEST, suite="affine")


def test_hugging_face_texts(pipeline):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=list(CLASSES))})
    data = datasets.Dataset.from_dict({"text": VAL[0], "label": VAL[1]}, features=features)
    source = open_source(data)
    assert source.kind == "text"
    assert source.class_names == CLASSES
    assert source.inputs()[:3].tolist() == VAL[0][:3]
    calibrated = driftcal.tune(pipeline, data, method="ts", shift=None)
    assert calibrated.metadata["accuracy"] > 0.8


def test_texts_have_a_content_of_their_own():
    first, again = open_source(VAL, class_names=CLASSES), open_source(VAL, class_names=CLASSES)
    changed = open_source(([*VAL[0][:-1], "another"], VAL[1]), class_names=CLASSES)
    assert first.fingerprint == again.fingerprint != changed.fingerprint


@pytest.fixture(scope="module")
def classifier():
    """A tiny BERT with a vocabulary of words, trained for a moment."""
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = sorted({word for text in TRAIN[0] for word in text.replace(",", " ,").split()})
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            max_position_embeddings=64, hidden_dropout_prob=0.0, id2label=dict(enumerate(CLASSES)), label2id={c: i for i, c in enumerate(CLASSES)},
        )
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    labels = torch.tensor([CLASSES.index(name) for name in TRAIN[1]])
    for low in itertools.islice(itertools.cycle(range(0, 400, 50)), 120):
        tokens = fast(TRAIN[0][low : low + 50], padding=True, return_tensors="pt")
        optimizer.zero_grad()
        model(**tokens, labels=labels[low : low + 50]).loss.backward()
        optimizer.step()
    return model, fast


def test_a_transformers_text_classifier(classifier, tmp_path):
    transformers = pytest.importorskip("transformers")
    model, tokenizer = classifier
    opened = driftcal.open_model(model, tokenizer=tokenizer)
    assert (opened.framework, opened.class_names) == ("transformers", CLASSES)
    calibrated = driftcal.tune(opened, *VAL, method="ts", n_levels=3)
    assert calibrated.metadata["accuracy"] > 0.8
    results = driftcal.evaluate(calibrated, TEST[0][:60], TEST[1][:60], n_resamples=0)
    page = driftcal.write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "text_ocr" in page
    path = calibrated.save(tmp_path / "cal.safetensors")
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    loaded = driftcal.CalibratedModel.load(path, pipe)  # the same model in a pipeline
    np.testing.assert_allclose(loaded.predict_proba(TEST[0]), calibrated.predict_proba(TEST[0]), atol=1e-6)
    with pytest.raises(InputError, match="Pass the tokenizer too"):
        driftcal.open_model(model).logits(["a text"])


def test_values_that_are_no_texts_are_named(pipeline):
    """They were refused as images."""
    calibrated = driftcal.tune(pipeline, *VAL, method="ts", shift=None)
    for texts, message in (([None, "fun"], "sample 0 is of type NoneType"), (["fun", 3], "sample 1 is of type int")):
        with pytest.raises(InputError, match=f"texts must be a list of str, one per sample; {message}"):
            calibrated.predict_proba(texts)
    with pytest.raises(InputError, match=r"they are one text\. Pass \[text\]"):
        calibrated.predict_proba("fun")
