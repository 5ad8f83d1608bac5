"""`SublevelSearchCV` is an estimator of scikit-learn and finds better parameters than a random search."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import sublevel as sl

pytest.importorskip("sklearn")

import joblib
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_regression
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sublevel.adapters.sklearn import SublevelSearchCV

COMMON = {"n_iter": 2, "cv": 2, "error_score": "raise", "random_state": 0}
X, Y = make_regression(60, 5, n_informative=3, noise=20.0, random_state=1)
SPACE = {"alpha": sl.Real(1e-3, 1e3, log=True), "fit_intercept": sl.Choice(False, True)}


@parametrize_with_checks(
    [
        SublevelSearchCV(Ridge(), {"alpha": sl.Real(0.1, 1.0)}, **COMMON),
        SublevelSearchCV(
            Pipeline([("pca", PCA()), ("classifier", LogisticRegression())]),
            {"classifier__C": sl.Real(0.1, 1.0, log=True)},
            **COMMON,
        ),
    ],
    # As of scikit-learn's own searches: Ridge accepts a column as y without the warning that the check waits for.
    expected_failed_checks=lambda search: (
        {"check_supervised_y_2d": "no DataConversionWarning"} if isinstance(search.estimator, Ridge) else {}
    ),
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_checks_pass(estimator, check):
    check(estimator)


def search(**given):
    return SublevelSearchCV(Ridge(), SPACE, **{"n_iter": 20, "cv": 3, "random_state": 1, **given})


def test_attributes_are_those_of_a_search():
    fitted = search().fit(X, Y)
    assert len(fitted.cv_results_["params"]) == 20
    assert fitted.best_params_ == fitted.cv_results_["params"][fitted.best_index_]
    assert fitted.best_score_ == np.max(fitted.cv_results_["mean_test_score"])
    assert fitted.best_estimator_.get_params()["alpha"] == fitted.best_params_["alpha"]
    np.testing.assert_array_equal(fitted.predict(X), fitted.best_estimator_.predict(X))


def test_first_candidate_is_the_start_of_the_space():
    space = sl.Space(SPACE).start_at({"alpha": 7.0, "fit_intercept": True})
    fitted = SublevelSearchCV(Ridge(), space, n_iter=1, cv=3).fit(X, Y)
    assert fitted.cv_results_["params"] == [{"alpha": pytest.approx(7.0), "fit_intercept": True}]


@pytest.mark.parametrize("n_iter", [1, 5, 7, 8, 23])
def test_number_of_candidates_is_exact(n_iter):
    assert len(search(n_iter=n_iter, popsize=6).fit(X, Y).cv_results_["params"]) == n_iter


def test_candidates_depend_on_the_seed_alone():
    with joblib.parallel_backend("threading"):
        one, other, third = (
            search(random_state=seed, n_jobs=jobs).fit(X, Y) for seed, jobs in ((1, 1), (1, 2), (2, 1))
        )
    assert one.cv_results_["params"] == other.cv_results_["params"] != third.cv_results_["params"]
    assert clone(one).fit(X, Y).best_params_ == one.best_params_


def test_search_converges_to_the_best_penalty():
    grid = np.geomspace(1e-3, 1e3, 60)
    folds = KFold(3)
    of_grid = [np.mean([Ridge(alpha=a).fit(X[i], Y[i]).score(X[j], Y[j]) for i, j in folds.split(X)]) for a in grid]
    assert search(n_iter=40).fit(X, Y).best_score_ >= np.max(of_grid) - 1e-4


def test_pipelines_choices_and_integers_are_searched():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[::4], y[::4]
    space = {
        "svc__C": sl.Real(1e-2, 1e3, log=True),
        "svc__kernel": sl.Choice("rbf", "poly"),
        "svc__degree": sl.Integer(1, 4),
        "svc__shrinking": True,
    }
    pipeline = Pipeline([("scale", StandardScaler()), ("svc", SVC())])
    fitted = SublevelSearchCV(pipeline, space, n_iter=20, cv=3, random_state=1).fit(X, y)
    assert set(fitted.best_params_) == set(space)
    assert isinstance(fitted.best_params_["svc__degree"], int)
    assert fitted.best_score_ > 0.95


class Fragile(Ridge):
    """Fails with a small penalty."""

    def fit(self, X, y, sample_weight=None):
        if self.alpha < 1.0:
            raise ValueError("too small")
        return super().fit(X, y, sample_weight)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_candidates_that_fail_are_ranked_last():
    fitted = SublevelSearchCV(Fragile(), SPACE, n_iter=30, cv=3, random_state=1).fit(X, Y)
    assert np.isnan(fitted.cv_results_["mean_test_score"]).any()
    assert fitted.best_params_["alpha"] >= 1.0
    with pytest.raises(ValueError, match="too small"):
        SublevelSearchCV(Fragile(), SPACE, n_iter=30, error_score="raise", random_state=1).fit(X, Y)


def test_of_several_scores_refit_names_the_one_to_search_by():
    scoring = ["r2", "neg_mean_absolute_error"]
    fitted = search(scoring=scoring, refit="neg_mean_absolute_error").fit(X, Y)
    assert fitted.best_score_ == np.max(fitted.cv_results_["mean_test_neg_mean_absolute_error"])
    with pytest.raises(
        ValueError, match="`refit` must be the name of the one to optimise, one of 'r2', 'neg_mean_absolute_error'"
    ):
        search(scoring=scoring, refit=False).fit(X, Y)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`n_iter` must be a whole number of at least 1, got 0"):
        search(n_iter=0).fit(X, Y)
    with pytest.raises(TypeError, match=r"`n_iter` must be a whole number, got 3.5 of type float"):
        search(n_iter=3.5).fit(X, Y)
    with pytest.raises(TypeError, match="parameter 'alpha' must be Real"):
        SublevelSearchCV(Ridge(), {"alpha": [0.1, 1.0]}).fit(X, Y)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "sublevel.adapters.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.model_selection._search", None)
    with pytest.raises(ModuleNotFoundError, match=r"which is not installed: pip install 'sublevel\[sklearn\]'"):
        importlib.import_module("sublevel.adapters.sklearn")
