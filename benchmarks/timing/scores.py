"""How well predictions agree with measurements; every error is in per cent."""

import collections

import numpy as np

BOUNDS = ("math", "memory", "latency", "communication", "unknown")


def errors(predicted, measured):
    """MAPE, median and 90th percentile of |predicted / measured - 1|."""
    error = 100 * np.abs(predicted / measured - 1)
    return error.mean(), np.median(error), np.quantile(error, 0.9)


def bias(predicted, measured):
    """Geometric mean of predicted / measured, less 1."""
    return 100 * (np.exp(np.mean(np.log(predicted / measured))) - 1)


def coverage(low, high, bound, measured):
    """Share of measurements inside the range: all, and per bound with at least 50 rows."""
    inside = (measured >= low) & (measured <= high)
    shares = {"all": 100 * inside.mean()}
    for code, name in enumerate(BOUNDS):
        rows = bound == code
        if rows.sum() >= 50:
            shares[name] = 100 * inside[rows].mean()
    return shares


def neighbours(shapes, axis, ratio=1.5):
    """Pairs (i, j) of shapes (m, n, k) that differ along one axis only, by up to `ratio`."""
    groups = collections.defaultdict(list)
    for i, shape in enumerate(shapes):
        groups[tuple(shape[:axis]) + tuple(shape[axis + 1:])].append(i)
    pairs = []
    for members in groups.values():
        members.sort(key=lambda i: shapes[i][axis])
        for place, i in enumerate(members):
            for j in members[place + 1:]:
                if shapes[j][axis] > ratio * shapes[i][axis]:
                    break
                pairs.append((i, j))
    return np.array(pairs).reshape(-1, 2)


def predicted_changes(predicted, claim=0.05):
    """Which pairs (columns: first, second) are predicted to differ by more than `claim`."""
    return np.abs(np.log(predicted[:, 1] / predicted[:, 0])) > np.log1p(claim)


def sign_agreement(predicted, measured):
    """Per cent of the pairs whose measured ratio has the sign of the predicted one."""
    if not len(predicted):
        return float("nan")
    model = np.log(predicted[:, 1] / predicted[:, 0])
    truth = np.log(measured[:, 1] / measured[:, 0])
    return 100 * (np.sign(model) == np.sign(truth)).mean()


def cliffs(shapes, predicted, measured):
    """Jumps from m to m + 1: recall of measured ones above 15 %, precision of predicted ones."""
    index = {tuple(shape): i for i, shape in enumerate(shapes)}
    pairs = [(i, index[(m + 1, n, k)]) for (m, n, k), i in index.items() if (m + 1, n, k) in index]
    if not pairs:
        return float("nan"), float("nan"), 0
    first, second = np.array(pairs).T
    model = predicted[second] / predicted[first] - 1
    truth = measured[second] / measured[first] - 1
    steep = truth > 0.15
    told = model > 0.07
    recall = 100 * (model[steep] > 0.05).mean() if steep.any() else float("nan")
    precision = 100 * (truth[told] > 0.05).mean() if told.any() else float("nan")
    return recall, precision, int(steep.sum())


def fitted_roofline(flop, bytes_moved, measured, peak, bandwidth):
    """The 3-constant roofline t0 + max(flop / (a·peak), bytes / (b·bandwidth)), fitted to the rows
    it is scored on; returns its predictions."""
    from scipy.optimize import minimize

    def predict(x):
        start, math, memory = np.exp(x)
        return start + np.maximum(flop / (math * peak), bytes_moved / (memory * bandwidth))

    def loss(x):
        return np.mean(np.abs(predict(x) / measured - 1))

    starts = [np.log([np.quantile(measured, 0.01), share, share]) for share in (0.4, 0.7)]
    best = min((minimize(loss, start, method="Nelder-Mead", options={"maxiter": 600})
                for start in starts), key=lambda result: result.fun)
    return predict(best.x)
