"""Models of the transformers library: text with a tokenizer, images with their image processor, pipelines of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from driftcal.core.inputs.array_dicts import ArrayDict
from driftcal.errors import ModelError
from driftcal.io.fingerprint import fingerprint
from driftcal.models.outputs import Outputs, scores
from driftcal.models.preprocessing import Preprocessing
from driftcal.models.torch.torch_backend import TorchBackend
from driftcal.types import Array, Inputs


class TextBackend(TorchBackend):
    """A torch module that takes tokens, behind its tokenizer: texts in, scores out."""

    framework = "transformers"
    takes_text = True

    def __init__(self, module: Any, tokenizer: Any, *, device: str = "auto", threads: int | None = None) -> None:
        super().__init__(module, device=device, threads=threads)
        self._tokenizer = tokenizer

    def configured(self, *, outputs: Outputs, name: str | None) -> TextBackend:
        """This backend: a module uses neither."""
        return self

    def run(self, batch: Inputs) -> Array:
        """Scores of a batch of texts; long texts are cut at the model's limit. Tokens in a dictionary go to the model."""
        if isinstance(batch, ArrayDict):
            return super().run(batch)
        limit = getattr(getattr(self.module, "config", None), "max_position_embeddings", None)
        tokens = self._tokenizer(list(batch), padding=True, truncation=True, max_length=limit, return_tensors="pt")
        with self._inference():
            return self._numpy(scores(self.module(**{name: values.to(self.device) for name, values in tokens.items()})))

    def layers(self) -> tuple[str, ...]:
        """(): the layers of a text model have a value per token, and batches differ in length."""
        return ()

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over the module and the vocabulary."""
        vocabulary = json.dumps(sorted(self._tokenizer.get_vocab().items()), ensure_ascii=True)
        return fingerprint(
            {"module": super().digest(run), "tokenizer": type(self._tokenizer).__name__, "vocabulary": vocabulary}
        )


def is_pipeline(model: Any) -> bool:
    """Whether this is a pipeline of transformers: a model together with its tokenizer or image processor."""
    return any(base.__module__.startswith("transformers.pipelines") for base in type(model).__mro__)


def parts_of_pipeline(pipeline: Any) -> tuple[Any, Any, Any]:
    """The model, the tokenizer (for text) and the image processor (for images) of a classification pipeline."""
    task = getattr(pipeline, "task", "")
    if task not in ("text-classification", "sentiment-analysis", "image-classification"):
        raise ModelError(
            f"a pipeline must classify texts or images; its task is {task!r}. Open its model with tokenizer=... instead."
        )
    if task == "image-classification":
        return pipeline.model, None, pipeline.image_processor
    return pipeline.model, pipeline.tokenizer, None


def class_names_of(model: Any) -> list[str] | None:
    """The class names in the configuration of a model; None if they are the placeholders LABEL_0, LABEL_1, …"""
    names: Mapping[Any, str] = getattr(getattr(model, "config", None), "id2label", None) or {}
    ordered = [str(names[number]) for number in sorted(names, key=int)]
    placeholders = all(name == f"LABEL_{number}" for number, name in enumerate(ordered))
    return None if placeholders else ordered


def preprocessing_of(configuration: Any) -> Preprocessing:
    """Preprocessing from the configuration of an image processor of transformers, or timm's ``pretrained_cfg``.

    Images are scaled to the size that the network takes; a crop that the configuration asks for is not made, because inputs
    are expected to be cut already.

    >>> preprocessing_of({"input_size": (3, 224, 224), "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "crop_pct": 0.9}).size
    (224, 224)
    """
    values = configuration if isinstance(configuration, Mapping) else configuration.to_dict()
    if "input_size" in values:  # timm
        _, height, width = values["input_size"]
        return Preprocessing(mean=values["mean"], std=values["std"], layout="NCHW", size=(int(height), int(width)))
    size = values.get("crop_size") if values.get("do_center_crop") else values.get("size")
    resized = size if values.get("do_resize", True) or values.get("do_center_crop") else None
    normalised = values.get("do_normalize", True)
    # images here are in [0, 1] already, which is what rescaling by 1/255 gives
    scale = 1.0 if values.get("do_rescale", True) else 255.0
    factor = values.get("rescale_factor", 1 / 255) * 255 if values.get("do_rescale", True) else 1.0
    return Preprocessing(
        mean=tuple(values["image_mean"]) if normalised else (),
        std=tuple(values["image_std"]) if normalised else (),
        layout="NCHW",
        size=_height_and_width(resized),
        scale=scale * factor,
    )


def is_processor(preprocessing: Any) -> bool:
    """Whether this is an image processor of transformers, or its or timm's configuration."""
    if isinstance(preprocessing, Mapping):
        return "input_size" in preprocessing or "image_mean" in preprocessing
    return any(base.__module__.startswith("transformers.") for base in type(preprocessing).__mro__)


def _height_and_width(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, int):
        return size, size
    values = size if isinstance(size, Mapping) else size.to_dict() if hasattr(size, "to_dict") else dict(size)
    side = values.get("shortest_edge")
    return (int(side), int(side)) if side is not None else (int(values["height"]), int(values["width"]))
