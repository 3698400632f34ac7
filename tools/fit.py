"""Fits constants of a calibration section to measured rows; used by the tools/fit_* scripts.

Constants are searched on a log scale with scipy.optimize.least_squares and a loss that is squared
near 0 and linear beyond `scale`.
"""

import copy
import json
import pathlib
import sys

import numpy as np
from scipy.optimize import least_squares

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from timing.predictor import Predictor  # noqa: E402  (needs the path above)

CALIBRATION = ROOT / "data" / "calibration"


def read_calibration(name):
    return json.loads((CALIBRATION / f"{name}.json").read_text(encoding="utf-8"))


def write_calibration(name, calibration):
    text = json.dumps(calibration, indent=2, ensure_ascii=False) + "\n"
    (CALIBRATION / f"{name}.json").write_text(text, encoding="utf-8")


def own_section(name, key):
    """The section of a calibration file, followed through "use"."""
    section = read_calibration(name)[key]
    if "use" in section:
        section = read_calibration(section["use"])[key]
    return copy.deepcopy(section)


def log_errors(predictor, measured, sections):
    """ln(predicted / measured) of each row."""
    return np.log(predictor.predict(sections)[0] / measured)


def percent_errors(predicted, measured):
    """MAPE, median and 90th percentile of |predicted/measured - 1|, and the bias, in per cent."""
    error = 100 * np.abs(predicted / measured - 1)
    bias = 100 * (np.exp(np.mean(np.log(predicted / measured))) - 1)
    return error.mean(), np.median(error), np.quantile(error, 0.9), bias


def fit(parts, key, section, bounds, scale=0.09, weights=None, max_evaluations=60, report=print):
    """Fits section[name] for each name: (low, high) of `bounds`; returns the fitted section.

    `parts` is a list of (Predictor, measured seconds): rows of several GPUs share the constants.
    """
    names = list(bounds)
    low = np.log([bounds[n][0] for n in names])
    high = np.log([bounds[n][1] for n in names])
    start = np.clip(np.log([max(section[n], 1e-30) for n in names]), low + 1e-6, high - 1e-6)

    def with_constants(x):
        changed = copy.deepcopy(section)
        for name, value in zip(names, np.exp(x)):
            changed[name] = float(value)
        return changed

    def residuals(x):
        sections = {key: with_constants(x)}
        return np.concatenate([log_errors(p, m, sections) for p, m in parts]) * (
            1 if weights is None else weights)

    result = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=scale,
                           diff_step=1e-3, max_nfev=max_evaluations, x_scale=0.3)
    fitted = with_constants(result.x)
    report({n: float(f"{fitted[n]:.4g}") for n in names})
    return fitted


def rounded(value, digits=4):
    """The section with numbers of `digits` significant digits."""
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
