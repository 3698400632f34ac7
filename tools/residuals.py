"""Learned corrections of the time model: grows the trees of data/residuals; used by tools/fit_*.

A correction is the sum of small regression trees for ln(measured / modelled), one set per GPU and
kind of product; src/rooftile/analysis/time/gemm_residual.h reads the files.
"""

import dataclasses
import json
import subprocess
import tempfile

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from fit import ROOT
from timing.predictor import BINARY

TREES, LEAVES = 100, 16
REGIMES = ["math", "memory", "latency"]  # in the order of the library's Bound


def feature_names(count=None):
    """The inputs of the trees that the library knows; the first `count` of them."""
    header = (ROOT / "src/rooftile/analysis/time/gemm_residual.h").read_text(encoding="utf-8")
    start = header.index("kResidualFeatures = {")
    return [name for name in header[start:header.index("}", start)].split('"')[1::2]][:count]


def features_of(gpu, rows, count=None):
    """The inputs of each row, from the library."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for i, row in enumerate(rows):
            kind, dtype, fields = row.ops[0].split(" ", 2)
            file.write(f"{kind} r{i} {dtype} {fields}\n")
        file.flush()
        text = subprocess.run([BINARY, gpu, file.name, "features"], check=True,
                              stdout=subprocess.PIPE).stdout
    return np.array(text.split(), np.float32).reshape(len(rows), -1)[:, :count]


def intervals(log_ratio, bound):
    """5 % and 95 % quantiles of measured over predicted by regime."""
    result = {}
    for regime in ("latency", "memory", "math"):
        part = log_ratio[bound == REGIMES.index(regime)]
        low, high = np.exp(np.quantile(part if len(part) > 50 else log_ratio, [0.05, 0.95]))
        result[regime] = [round(min(low, 1.0), 3), round(max(high, 1.0), 3)]
    return result


@dataclasses.dataclass
class Trees:
    """How they grow."""
    limit: float = 0.35  # of the logarithm of the correction
    learning_rate: float = 0.22
    smallest_leaf: int = 15

    def train(self, features, target, weights=None):
        model = HistGradientBoostingRegressor(
            max_iter=TREES, max_leaf_nodes=LEAVES, learning_rate=self.learning_rate,
            min_samples_leaf=self.smallest_leaf, l2_regularization=1.0, max_bins=255,
            early_stopping=False, random_state=1)
        return model.fit(features, target, weights)

    def correction(self, model, features):
        return np.clip(model.predict(features), -self.limit, self.limit)

    def unseen(self, features, target, group, weights=None):
        """The correction of each row by trees that saw no row of its group; 0 for groups below 0,
        which are only learned from."""
        guess = np.zeros(len(target))
        for number in np.unique(group[group >= 0]):
            rest, held = group != number, group == number
            model = self.train(features[rest], target[rest],
                               None if weights is None else weights[rest])
            guess[held] = self.correction(model, features[held])
        return guess


def by_value(values, seed=3, parts=4):
    """A group for each row: all rows of one value are in the same."""
    rng = np.random.default_rng(seed)
    number = {x: i % parts for i, x in enumerate(rng.permutation(np.unique(values)))}
    return np.array([number[x] for x in values])


def flat(nodes, index, values):
    """A tree in preorder: [feature, threshold, left, right] or [-1, leaf]."""
    node = nodes[index]
    if node["is_leaf"]:
        values += [-1, round(float(node["value"]), 5)]
        return values
    values += [int(node["feature_idx"]), float(f"{node['num_threshold']:.6g}")]
    flat(nodes, node["left"], values)
    return flat(nodes, node["right"], values)


def trees_of(model):
    first = [-1, round(float(np.ravel(model._baseline_prediction)[0]), 5)]
    return [first] + [flat(p[0].nodes, 0, []) for p in model._predictors]


def write(device, product, header, names, model):
    """data/residuals/DEVICE_PRODUCT.json, a tree a line."""
    (ROOT / "data/residuals").mkdir(exist_ok=True)
    content = {"gpu": device, "applies_to": header["applies_to"], "product": product, **header,
               "features": names, "trees": trees_of(model)}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    text = text.replace('"trees":[[', '"trees":[\n[').replace("],[", "],\n[") + "\n"
    (ROOT / f"data/residuals/{device}_{product}.json").write_text(text, encoding="utf-8")
