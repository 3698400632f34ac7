"""A report as a table for notebooks: self-contained, no scripts."""

from __future__ import annotations

import html
from typing import Optional

from . import _schemas

VERDICTS = {
    "findings": "Something to change",
    "no_change_worth_making": "No change worth making",
    "not_judged": "Not judged",
}
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
FITS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit"}
# What a fix does to the results, as the text says it.
EXACTNESS = {
    "bit_exact": "same bits",
    "exact_arithmetic": "same result up to rounding",
    "changes_numerics": "changes the precision",
    "changes_training": "changes the model or its training",
}
STYLE = "text-align:left;vertical-align:top"


def scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    """A number with three digits and its unit."""
    for size, unit in units:
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / units[-1][0]:.3g} {units[-1][1]}"


def range_text(value: Optional[_schemas.Range], units: tuple[tuple[float, str], ...] = SECONDS) -> str:
    """"1.26 ms (0.81 ms–2.1 ms)"; nothing for None."""
    if value is None:
        return ""
    return f"{scaled(value.expected, units)} ({scaled(value.low, units)}–{scaled(value.high, units)})"


def saving_text(value: Optional[_schemas.Range]) -> str:
    """A range; what may also lose time is "up to", as in the text."""
    if value is None or value.low >= 0:
        return range_text(value)
    return f"up to {scaled(value.high, SECONDS)}, likely {scaled(value.expected, SECONDS)}"


def place(where: _schemas.Location) -> str:
    """File, line and module, as far as known."""
    words = [where.file or ""]
    if where.cell is not None:
        words[0] += f" cell {where.cell}"
    if where.line is not None:
        words[0] += f":{where.line}"
    return " ".join(word for word in (*words, where.module or where.node or "") if word)


def summary(report: _schemas.Report) -> str:
    """Verdict, time and memory in one line."""
    parts = [VERDICTS[report.verdict]]
    if report.not_judged_because:
        parts[0] += f": {report.not_judged_because}"
    if report.total_s is not None:
        parts.append(f"expected time {range_text(report.total_s)}")
    if report.memory is not None:
        total = scaled(report.memory.total_bytes.expected, BYTES)
        usable = scaled(report.memory.usable_bytes, BYTES)
        parts.append(f"memory {total} of {usable} {FITS[report.memory.verdict]}")
    return "; ".join(parts) + "."


def fix_text(finding: _schemas.Finding) -> str:
    """What to do, and what that does to the results."""
    effect = EXACTNESS.get(finding.fix.exactness, "")
    if finding.fix.exactness == "changes_training" and finding.rule.startswith("input_pipeline/"):
        effect = "may change the order or augmentation of samples"
    return f"{finding.fix.text.removesuffix('.')} ({effect})" if effect else finding.fix.text


def finding_row(finding: _schemas.Finding) -> str:
    cells = (
        html.escape(finding.level),
        f"<code>{html.escape(finding.rule)}</code><br>{html.escape(place(finding.location))}",
        f"{html.escape(finding.message)}<br><b>Fix:</b> {html.escape(fix_text(finding))}",
        html.escape(saving_text(finding.saving_s)),
    )
    return "<tr>" + "".join(f'<td style="{STYLE}">{cell}</td>' for cell in cells) + "</tr>"


def report_html(report: _schemas.Report) -> str:
    """The whole report; text of the user's files is escaped."""
    title = html.escape(", ".join(report.inputs))
    gpu = f" on {html.escape(report.gpu.name)}" if report.gpu is not None and report.gpu.name else ""
    mode = f", {html.escape(report.mode)}" if report.total_s is not None else ""  # scripts have none
    text = f"<div><b>{title}</b>{gpu}{mode}<br>{html.escape(summary(report))}"
    if report.findings:
        head = "".join(f'<th style="{STYLE}">{name}</th>' for name in ("level", "rule", "finding", "saves"))
        rows = "".join(finding_row(finding) for finding in report.findings)
        text += f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in report.notes)
    return text + (f"<ul>{notes}</ul>" if notes else "") + "</div>"
