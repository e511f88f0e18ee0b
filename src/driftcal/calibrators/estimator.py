"""What scikit-learn expects of an estimator, without importing scikit-learn: that alone takes a second."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Self

from driftcal.core.display import Displayed
from driftcal.errors import InputError, NotFittedError


class Estimator(Displayed):
    """A classifier with scikit-learn's parameters and tags: `clone`, `GridSearchCV` and pipelines accept it."""

    @classmethod
    def _parameter_defaults(cls) -> dict[str, Any]:
        """The parameters of the constructor with their defaults, by name."""
        parameters = inspect.signature(cls.__init__).parameters.values()
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return {
            p.name: p.default
            for p in sorted(parameters, key=lambda p: p.name)
            if p.name != "self" and p.kind not in kinds
        }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor, as scikit-learn's `clone` reads them."""
        return {name: getattr(self, name) for name in self._parameter_defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters of the constructor."""
        names = self._parameter_defaults()
        for name, value in params.items():
            if name not in names:
                raise InputError(f"a parameter must be one of {list(names)}; it is {name!r}. Check its name.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The class with the parameters that differ from their defaults."""
        defaults = self._parameter_defaults()
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if repr(v) != repr(defaults[k])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """The tags of a classifier; scikit-learn asks for them."""
        return _tags_of_a_classifier()

    @property
    def _estimator_type(self) -> str:
        return "classifier"


def _tags_of_a_classifier() -> Any:
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """A classifier without methods."""

    return Classifier().__sklearn_tags__()


@functools.cache
def not_fitted_error() -> type[NotFittedError]:
    """The class of an error that both driftcal's and scikit-learn's users can catch."""
    import sklearn.exceptions

    class NotFitted(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
        """A calibrator was used before it was fitted."""

    return NotFitted
