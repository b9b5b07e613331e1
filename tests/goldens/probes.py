"""Writes probe/metrics.json, probe/solvers.json and probe/folds.json: what scikit-learn says, for the tests of probes.

python probes.py

Solvers are compared at scikit-learn's own exact solver, `newton-cholesky` with tol 1e-10; its default tolerance is far from the
optimum. The digits are scikit-learn's `load_digits`; `states` are rows as hidden states have them: correlated numbers of very
different sizes, more of them than a third of the rows.
"""

import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    precision_recall_curve,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)
from sklearn.preprocessing import StandardScaler

HERE = Path(__file__).parent / "probe"
PENALTIES = (1e-3, 1e-2, 1.0)
#: Columns of weights and rows of probabilities that are written.
SAMPLES = 40


def ece(p, y):
    """15 bins of equally many rows; rows of one probability stay in the bin of the first of them."""
    order = np.argsort(p, kind="stable")
    p, y = p[order], y[order]
    bins = np.arange(len(p)) * 15 // len(p)
    for at in range(1, len(p)):
        if p[at] == p[at - 1]:
            bins[at] = bins[at - 1]
    parts = [bins == bin for bin in np.unique(bins)]
    return float(sum(part.sum() / len(p) * abs(y[part].mean() - p[part].mean()) for part in parts))


def binary(name, scores, y, threshold):
    scores = np.asarray(scores, dtype=np.float32).astype(np.float64)
    y = np.asarray(y).astype(int)
    called = (scores >= threshold).astype(int)
    p = 1 / (1 + np.exp(-scores))
    precision, recall, thresholds = precision_recall_curve(y, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    false, true, _ = roc_curve(y, scores, drop_intermediate=False)
    matrix = confusion_matrix(y, called, labels=[0, 1])
    return {
        "name": name,
        "scores": scores.tolist(),
        "positive": y.tolist(),
        "threshold": threshold,
        "auc": roc_auc_score(y, scores),
        "average_precision": average_precision_score(y, scores),
        "best_f1": float(f1.max()),
        "precision_at_recall_0.9": float(precision[recall >= 0.9].max()),
        "recall_at_0.01": float(true[false <= 0.01].max()),
        "recall_at_0.05": float(true[false <= 0.05].max()),
        "confusion": matrix.ravel().tolist(),
        "precision": precision_score(y, called, zero_division=0),
        "recall": recall_score(y, called),
        "f1": f1_score(y, called, zero_division=0),
        "accuracy": accuracy_score(y, called),
        "balanced_accuracy": balanced_accuracy_score(y, called),
        "matthews": matthews_corrcoef(y, called),
        "brier": brier_score_loss(y, p),
        "ece": ece(p, y),
    }


def metrics():
    rng = np.random.default_rng(1)
    y = rng.random(400) < 0.1
    plain = rng.normal(size=400) + 1.5 * y
    cases = [
        binary("plain", plain, y, 0.5),
        binary("ties", np.round(plain), y, 1.0),
        binary("all_equal", np.full(60, 0.25), np.arange(60) % 3 == 0, 0.5),
        binary("perfect", np.arange(50.0) - 40, np.arange(50) >= 40, 0.0),
        binary("reversed", -np.arange(50.0), np.arange(50) >= 40, -5.0),
        binary("two_values", rng.integers(0, 2, 300), rng.random(300) < 0.5, 1.0),
        binary("nothing_called", plain, y, 99.0),
        binary("large", 40 * plain, y, 0.0),
    ]
    truth = rng.integers(0, 4, 200)
    scores = rng.normal(size=(4, 200)).round(1)
    scores[truth, np.arange(200)] += 1
    scores = scores.astype(np.float32).astype(np.float64)
    called = scores.argmax(axis=0)
    aucs = [roc_auc_score(truth == k, scores[k]) for k in range(4)]
    classes = {
        "scores": scores.tolist(),
        "truth": truth.tolist(),
        "accuracy": accuracy_score(truth, called),
        "macro_f1": f1_score(truth, called, average="macro"),
        "macro_auc": float(np.mean(aucs)),
        "confusion": confusion_matrix(truth, called).tolist(),
    }
    return {"binary": cases, "classes": classes}


def objective(x, y, w, b, c, weights):
    margin = np.where(y, 1, -1) * (x @ w + b)
    return float(c * (weights * np.logaddexp(0, -margin)).sum() + 0.5 * w @ w)


def fit(x, y, c, balanced):
    model = LogisticRegression(
        C=c, solver="newton-cholesky", tol=1e-10, max_iter=1000, class_weight="balanced" if balanced else None
    )
    model.fit(x, y)
    w, b = model.coef_[0], model.intercept_[0]
    weights = np.where(y, len(y) / (2 * y.sum()), len(y) / (2 * (~y).sum())) if balanced else np.ones(len(y))
    return {
        "c": c,
        "balanced": balanced,
        "weights": w[:SAMPLES].tolist(),
        "bias": float(b),
        "length": float(np.linalg.norm(w)),
        "probabilities": model.predict_proba(x)[:SAMPLES, 1].tolist(),
        "objective": objective(x, y, w, b, c, weights),
    }


def several(x, y, c):
    """The exact solver of several classes: its own lbfgs at 1e-12 after newton-cholesky, which has to be no better."""
    model = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(x, y)
    scores = x @ model.coef_.T + model.intercept_
    top = scores.max(axis=1, keepdims=True)
    loss = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0] - scores[np.arange(len(y)), y]
    # Biases have no penalty, and only their differences mean something.
    return {
        "c": c,
        "weights": model.coef_[:, :SAMPLES].tolist(),
        "biases": (model.intercept_ - model.intercept_.mean()).tolist(),
        "probabilities": model.predict_proba(x)[:SAMPLES].tolist(),
        "objective": float(c * loss.sum() + 0.5 * (model.coef_**2).sum()),
    }


def states(rows=240, width=96):
    """Rows that a test can make again: whole numbers by a rule, mixed and scaled."""
    at = np.arange(rows)[:, None] * width + np.arange(width)[None, :]
    noise = ((at * 2654435761) % 2**32 / 2**32 - 0.5).astype(np.float64)
    shared = ((np.arange(rows)[:, None] * 40503 * (1 + np.arange(6)[None, :]) + 977) % 65536 / 65536 - 0.5) * 4
    mix = np.sin(1 + np.arange(6)[:, None] * 3 + np.arange(width)[None, :] * 7.0)
    x = (noise + shared @ mix) * 10.0 ** (np.arange(width) % 4 - 1)[None, :]
    # Four digits, so that the file stays small.
    x = np.array([float(f"{v:.4g}") for v in x.ravel()]).reshape(x.shape)
    hidden = shared[:, 0] + 0.5 * shared[:, 1] * shared[:, 2] + noise[:, 0]
    return x, hidden > np.sort(hidden)[-rows // 6]


def solvers():
    digits, classes = load_digits(return_X_y=True)
    scaled = StandardScaler().fit_transform(digits)
    written, y = states()
    x = written.astype(np.float32)
    standard = StandardScaler().fit(x.astype(np.float64))
    standardised = standard.transform(x.astype(np.float64))
    of_digit = lambda k: [fit(scaled, classes == k, c, b) for c in PENALTIES for b in (False, True)]
    return {
        "digits": "".join(chr(ord("a") + int(v)) for v in digits.ravel()),
        "classes": "".join(str(k) for k in classes),
        "labels": [{"digit": k, "fits": of_digit(k)} for k in (0, 3, 8)],
        "several": [several(scaled, classes, c) for c in PENALTIES],
        "states": {
            "numbers": written.ravel().tolist(),
            "width": x.shape[1],
            "positive": y.astype(int).tolist(),
            "mean": standard.mean_.tolist(),
            "deviation": standard.scale_.tolist(),
            "fits": [fit(standardised, y, c, b) for c in PENALTIES for b in (False, True)],
        },
    }


def auc_of_others(x, y, train, test, c):
    """The AUC on some rows of what others say."""
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    scaled = (x - mean) / np.maximum(deviation, 1e-6 * np.median(deviation))
    model = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(scaled[train], y[train])
    return roc_auc_score(y[test], scaled[test] @ model.coef_[0] + model.intercept_[0])


def hanley_mcneil(auc, positives, negatives):
    q1, q2 = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    spread = auc * (1 - auc) + (positives - 1) * (q1 - auc * auc) + (negatives - 1) * (q2 - auc * auc)
    return (spread / (positives * negatives)) ** 0.5


def folds(count=5, rows=250):
    """Cross-validation in two levels of the first digits, of which three lines of pixels are the sites; row r is in fold r % 5."""
    digits, classes = load_digits(return_X_y=True)
    digits, classes = digits[:rows].astype(np.float64), classes[:rows]
    fold = np.arange(rows) % count
    sites = [digits[:, line * 8 : line * 8 + 8] for line in (1, 3, 5)]
    labels = [classes == digit for digit in (1, 5, 8)]
    chosen, values = [], []
    for without in range(count):
        inner = [it for it in range(count) if it != without]
        best = []
        for x in sites:
            of_site = []
            for y in labels:
                tried = lambda it, c: auc_of_others(x, y, (fold != without) & (fold != it), fold == it, c)
                means = [np.mean([tried(it, c) for it in inner]) for c in PENALTIES]
                outside = fold != without
                error = hanley_mcneil(max(means), y[outside].sum(), (~y[outside]).sum())
                first = next(at for at, mean in enumerate(means) if mean >= max(means) - error)
                of_site.append((means[first], PENALTIES[first]))
            best.append(of_site)
        common = int(np.argmax([np.mean([auc for auc, _ in of_site]) for of_site in best]))
        own = [int(np.argmax([best[site][label][0] for site in range(len(sites))])) for label in range(len(labels))]
        outside, inside = fold != without, fold == without
        judge = lambda site, label: auc_of_others(sites[site], labels[label], outside, inside, best[site][label][1])
        chosen.append({"common": common, "own": own})
        values.append(
            [[judge(common, label) for label in range(len(labels))], [judge(own[label], label) for label in range(len(labels))]]
        )
    common, own = np.mean(np.array(values), axis=0)
    return {"chosen": chosen, "common": common.tolist(), "own": own.tolist()}


def main():
    warnings.simplefilter("error")
    HERE.mkdir(exist_ok=True)
    for name, value in (("metrics", metrics()), ("solvers", solvers()), ("folds", folds())):
        (HERE / f"{name}.json").write_text(json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
