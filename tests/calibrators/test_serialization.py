"""A file is intact or refused, is equal to the bit after a round trip, and never runs code."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import driftcal
from driftcal.calibrators import CALIBRATORS, LogitCalibrator, make_calibrator, serialization
from driftcal.errors import ArtefactError, InputError
from driftcal.io.fingerprint import canonical_json, fingerprint

NAMES = sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features)
RNG = np.random.default_rng(0)
Z = RNG.normal(size=(80, 4)) * 3
Y = np.where(RNG.random(80) < 0.6, Z.argmax(axis=1), RNG.integers(0, 4, 80))


@pytest.fixture
def saved(tmp_path):
    return make_calibrator("irm").fit(Z[:20], Y[:20]).save(tmp_path / "irm.safetensors")


def parts(path):
    """Header and data of a safetensors file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def forge(path, change_header=lambda header: None, change_arrays=lambda arrays: None):
    """Alter a file and give it a matching digest, as a careful forger would."""
    safetensors_header, _ = parts(path)
    header, arrays = json.loads(safetensors_header["__metadata__"]["driftcal"]), load_file(path)
    header.pop("digest")
    change_header(header)
    change_arrays(arrays)
    named = {f"array {k}": v for k, v in arrays.items() if k != "empty"}
    header["digest"] = fingerprint({"note": header, **named})
    save_file(arrays, path, {"driftcal": canonical_json(header)})
    return path


@pytest.mark.parametrize("name", NAMES)
def test_round_trip_is_equal_to_the_bit_and_the_same_bytes_twice(name, tmp_path):
    cal = make_calibrator(name, classes=["d", "c", "b", "a"]).fit(Z, np.array(list("dcba"))[Y])
    path = cal.save(tmp_path / "one.safetensors", metadata={"model": "resnet"})
    again = make_calibrator(name, classes=("d", "c", "b", "a")).fit(Z, np.array(list("dcba"))[Y])
    assert again.save(tmp_path / "two.safetensors", metadata={"model": "resnet"}).read_bytes() == path.read_bytes()
    back = driftcal.load(path)
    assert type(back) is type(cal)
    assert back.get_params() == cal.get_params()
    for function in ("predict_proba", "predict_log_proba", "predict"):
        assert np.array_equal(getattr(back, function)(Z), getattr(cal, function)(Z))
    for attribute in (*cal.fitted, "classes_"):
        saved_array, loaded_array = np.asarray(getattr(cal, attribute)), np.asarray(getattr(back, attribute))
        assert saved_array.dtype == loaded_array.dtype
        assert np.array_equal(saved_array, loaded_array)
    assert {**cal.fit_report_.to_dict(), "seconds": 0.0} == back.fit_report_.to_dict()
    assert back.save(tmp_path / "three.safetensors", metadata={"model": "resnet"}).read_bytes() == path.read_bytes()
    assert serialization.load_file(path).metadata == {"model": "resnet"}


def test_parameters_of_any_container_and_infinite_losses_are_kept(tmp_path):
    cal = make_calibrator("ts", t_max=np.float32(4), classes=np.array([3, 5, 7, 9])).fit(Z, 2 * Y + 3)
    back = driftcal.load(cal.save(tmp_path / "a.safetensors"))
    assert back.get_params() == {"t_max": 4.0, "classes": [3, 5, 7, 9]}
    masked = Z.copy()
    masked[0, Y[0]] = -np.inf
    base = make_calibrator("base").fit(masked, Y)
    assert base.fit_report_.before == np.inf
    assert driftcal.load(base.save(tmp_path / "b.safetensors")).fit_report_.before == np.inf


@pytest.mark.parametrize("name", ["hb", "pbmc"])
def test_bins_that_hold_one_class_are_read_again_with_any_weights(name, tmp_path):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 60), rng.normal(size=(60, 2))
    z[np.arange(60), y] += 5
    fitted = make_calibrator(name).fit(z, y, sample_weight=rng.random(60) + 0.01)
    assert fitted.bin_values_.max() <= 1
    driftcal.load(fitted.save(tmp_path / "bins.safetensors"))


def test_the_official_package_reads_it(saved):
    with safe_open(saved, "numpy") as file:
        assert set(file.keys()) == {"curve_scores_", "curve_values_", "curve_starts_"}
        assert json.loads(file.metadata()["driftcal"])["calibrator"] == "irm"
        assert np.array_equal(file.get_tensor("curve_values_"), driftcal.load(saved).curve_values_)


def test_truncation_anywhere_is_refused(saved, tmp_path):
    raw = saved.read_bytes()
    length = 8 + int.from_bytes(raw[:8], "little")
    short = tmp_path / "short.safetensors"
    for cut in {0, 1, 7, 8, 9, length // 2, length - 1, length, length + 1, len(raw) - 8, len(raw) - 1}:
        short.write_bytes(raw[:cut])
        with pytest.raises(ArtefactError, match="foreign or truncated"):
            driftcal.load(short)
    short.write_bytes(raw + b"\0")
    with pytest.raises(ArtefactError, match="foreign or truncated"):
        driftcal.load(short)


def test_a_flipped_bit_anywhere_is_refused(saved, tmp_path):
    raw = saved.read_bytes()
    altered = tmp_path / "altered.safetensors"
    header = 8 + int.from_bytes(raw[:8], "little")
    for at in [*range(header), *range(header, len(raw), 7)]:
        for bit in (1 << (at % 8), 0x20):
            flipped = bytearray(raw)
            flipped[at] ^= bit
            altered.write_bytes(flipped)
            try:
                back = driftcal.load(altered)
            except ArtefactError:
                continue
            # a flip that changes nothing, for instance in the padding of the header
            assert np.array_equal(back.predict_proba(Z), driftcal.load(saved).predict_proba(Z)), at


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "foreign or truncated"),
        (b"PK\x03\x04 a zip file", "foreign or truncated"),
        (b"\x80\x04\x95 a pickle.", "foreign or truncated"),
        (b"{}", "foreign or truncated"),
        ((2).to_bytes(8, "little") + b"{}", "None"),
        ((2).to_bytes(8, "little") + b"[]", "foreign or truncated"),
        ((4).to_bytes(8, "little") + b"null", "foreign or truncated"),
        ((8).to_bytes(8, "little") + b'{"a": 3}', "foreign or truncated"),
        ((1 << 62).to_bytes(8, "little") + b"{}", "foreign or truncated"),
    ],
)
def test_foreign_bytes_are_refused(content, message, tmp_path):
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(content)
    with pytest.raises(ArtefactError, match=message):
        driftcal.load(path)


def test_other_safetensors_files_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    for metadata in (None, {"format": "pt"}, {"driftcal": "3"}, {"driftcal": "[1"}, {"driftcal": '{"format": 1}'}):
        save_file({"weight": np.zeros(3)}, path, metadata)
        with pytest.raises(ArtefactError, match="must be"):
            driftcal.load(path)


def test_paths_that_hold_no_file(tmp_path):
    for path in (tmp_path / "nothing.safetensors", tmp_path):
        with pytest.raises(ArtefactError, match=r"there is no such file\. Check the path"):
            driftcal.load(path)


HEADERS = {
    "newer version": (lambda h: h.update(version=3), "Update driftcal"),
    "older version": (lambda h: h.update(version=0), "format version 2 or less"),
    "version as text": (lambda h: h.update(version="1"), "format version 2 or less"),
    "version as bool": (lambda h: h.update(version=True), "format version 2 or less"),
    "other format": (lambda h: h.update(format="driftcal-store"), "driftcal-store"),
    "unknown calibrator": (lambda h: h.update(calibrator="vector-scaling"), "vector-scaling"),
    "calibrator as list": (lambda h: h.update(calibrator=["ts"]), "does not fit this version"),
    "unknown parameter": (lambda h: h["params"].update(power=2), "power"),
    "params as list": (lambda h: h.update(params=[1]), "does not fit this version"),
    "no classes": (lambda h: h.pop("classes"), "classes"),
    "classes as number": (lambda h: h.update(classes=4), "does not fit this version"),
    "one class": (lambda h: h.update(classes=[0]), "at least 2"),
    "nested classes": (lambda h: h.update(classes=[[0, 1], [2, 3]]), "classes"),
    "no report": (lambda h: h.pop("fit_report"), "fit_report"),
    "report as text": (lambda h: h.update(fit_report="good"), "does not fit this version"),
    "metadata as list": (lambda h: h.update(metadata=[1]), "metadata as a JSON object"),
    "a huge loss": (lambda h: h["fit_report"].update(before=10**400), "does not fit this version"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_forged_header_is_refused(case, saved):
    change, message = HEADERS[case]
    with pytest.raises(ArtefactError, match=message):
        driftcal.load(forge(saved, change))


ARRAYS = {
    "missing": ("irm", lambda a: a.pop("curve_values_")),
    "extra": ("irm", lambda a: a.update(more=np.zeros(2))),
    "starts beyond the end": ("irm", lambda a: a.update(curve_starts_=np.array([0, 10**9]))),
    "negative starts": ("irm", lambda a: a.update(curve_starts_=np.array([-5, len(a["curve_values_"])]))),
    "other dtype": ("irm", lambda a: a.update(curve_values_=a["curve_values_"].astype("f4"))),
    "NaN": ("irm", lambda a: a.update(curve_values_=a["curve_values_"] * np.nan)),
    "shorter values": ("irm", lambda a: a.update(curve_values_=a["curve_values_"][:-1])),
    "too few curves": ("ir", lambda a: a.update(curve_starts_=np.array([0, len(a["curve_values_"])]))),
    "temperature 0": ("ts", lambda a: a.update(temperature_=np.zeros(1))),
    "two weights": ("ets", lambda a: a.update(weights_=np.ones(2))),
    "slopes of other classes": ("ps", lambda a: a.update(slopes_=np.ones(3))),
    "two slopes": ("hts", lambda a: a.update(slope_=np.ones(2))),
    "no points": ("spline", lambda a: a.update(spline_scores_=np.ones(0), spline_values_=np.ones(0))),
    "a smaller network": ("pts", lambda a: a.update(network_=np.ones(20))),
    "inputs of another network": ("pts", lambda a: a.update(feature_low_=np.ones(9))),
    "a matrix of other classes": ("dirichlet", lambda a: a.update(matrix_=np.ones((3, 4)))),
    "curves of other classes": ("beta", lambda a: a.update(curves_=np.ones((3, 3)))),
    "a curve without its scores": ("spline", lambda a: a.update(spline_values_=np.ones(2))),
    "edges without values": ("hb", lambda a: a.update(bin_edges_=np.zeros((4, 30)))),
    "bins of other classes": ("pbmc", lambda a: a.update(bin_values_=np.zeros((2, 10)), bin_edges_=np.zeros((2, 9)))),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_forged_arrays_never_reach_a_compiled_loop(case, tmp_path):
    name, change = ARRAYS[case]
    path = make_calibrator(name).fit(Z, Y).save(tmp_path / "x.safetensors")
    with pytest.raises(ArtefactError):
        driftcal.load(forge(path, change_arrays=change))


def test_a_failing_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        make_calibrator("ts").fit(Z, Y).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_metadata_that_cannot_be_stored_are_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "x.safetensors"
    cal = make_calibrator("ts").fit(Z, Y)
    for bad in ({"a": np.nan}, {"a": np.zeros(3)}, {"a": object()}):
        with pytest.raises(InputError, match="plain JSON values"):
            cal.save(path, metadata=bad)

    class Mine(LogitCalibrator):
        keeps_accuracy = True
        _fit = _proba_into = None

    mine = Mine()
    mine.classes_ = np.arange(3)
    with pytest.raises(InputError, match="register_calibrator"):
        mine.save(path)
    assert not path.exists()


def test_loading_never_unpickles(saved):
    code = f"""
import sys, pickle
def refuse(*args, **kwargs): raise SystemExit("unpickled")
import driftcal
cal = driftcal.load({str(saved)!r})  # numba may unpickle its cache of compiled code
import numpy
pickle.load = pickle.loads = pickle.Unpickler = refuse
again = driftcal.load({str(saved)!r})
assert again.curve_values_.tolist() == cal.curve_values_.tolist()
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"


def test_further_calibrators_travel_in_the_same_file(tmp_path):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(300, 4)) * 4
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    main, plain = make_calibrator("irm").fit(logits, y), make_calibrator("ts").fit(logits, y)
    path = serialization.save(main, tmp_path / "both.safetensors", metadata={"seed": 1}, others={"ts": plain})
    np.testing.assert_array_equal(driftcal.load(path).predict_proba(logits), main.predict_proba(logits))
    others = serialization.load_file(path).others
    assert list(others) == ["ts"]
    np.testing.assert_array_equal(others["ts"].predict_proba(logits), plain.predict_proba(logits))
    assert serialization.load_file(main.save(tmp_path / "alone.safetensors")).others == {}
