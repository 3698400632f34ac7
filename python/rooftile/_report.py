"""What `check` returns."""

from __future__ import annotations

import json
from typing import Optional

from . import _program, _schemas
from ._html import report_html
from ._next_step import with_next_step
from ._source import Source
from ._table import Table


class Report(_schemas.Report):
    """What limits the input and what to change; the fields are those of docs/formats/report.schema.json.

    Times are in seconds, sizes in bytes, and a range has ``low``, ``expected`` and ``high`` (90 %)::

        report.verdict                       # "findings", "no_change_worth_making" or "not_judged"
        report.total_s.expected              # of one pass, or one step
        report.findings[0].saving_s.expected
        report.memory.verdict                # "fits", "tight" or "does_not_fit"
        report.operations.to_pandas()        # one row per operation
    """

    _text: str
    _source: Source
    _flags: tuple[str, ...]
    _list_flags: tuple[str, ...]
    _operations: Optional[_schemas.OperationList]

    @classmethod
    def of(cls, source: Source, flags: list[str], check_flags: list[str]) -> Report:
        """Runs the program. ``flags`` fit every command, ``check_flags`` only `check`."""
        words = ["check", *source.words, *flags, *check_flags]
        text = _program.run([*words, "--format=json", "--verbose"])
        report = cls.from_json(json.loads(text))
        for name, value in {
            "_text": text,
            "_source": source,
            "_flags": tuple(words),
            "_list_flags": ("ops", *source.words, *flags),
            "_operations": None,
        }.items():
            object.__setattr__(report, name, value)
        assert isinstance(report, Report)
        return report

    def operation_list(self) -> _schemas.OperationList:
        """The output of ``rooftile ops``: operations, and of traces their kernels, modules and copies."""
        if self._operations is None:
            text = _program.run([*self._list_flags, "--format=json"])
            object.__setattr__(self, "_operations", _schemas.OperationList.from_json(json.loads(text)))
        assert self._operations is not None
        return self._operations

    @property
    def operations(self) -> Table[_schemas.Operation]:
        """One record per operation, in input order; read from the input when first asked for."""
        return self.operation_list().ops

    def to_json(self) -> str:
        """The program's JSON, as docs/formats/report.schema.json describes it."""
        return self._text

    def to_sarif(self) -> str:
        """SARIF 2.1.0, for code scanning. Reads the input again."""
        return self._as("sarif")

    def to_markdown(self) -> str:
        """A report for people and language models. Reads the input again."""
        return self._as("markdown")

    def to_text(self, verbose: bool = False) -> str:
        """What the command line prints, with calls in the place of its options. Reads the input again."""
        return with_next_step(self._as("text", verbose), "report.to_text(verbose=True)", "report.operations")

    def _as(self, form: str, verbose: bool = True) -> str:
        return _program.run([*self._flags, f"--format={form}", *(["--verbose"] if verbose else [])])

    def __str__(self) -> str:
        return self.to_text().rstrip("\n")

    def __repr__(self) -> str:
        findings = f"{len(self.findings)} finding" + ("" if len(self.findings) == 1 else "s")
        return f"<rooftile.Report {', '.join(self.inputs)}: {self.verdict}, {findings}>"

    def _repr_html_(self) -> str:
        return report_html(self)

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


