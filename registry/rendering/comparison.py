"""The table to read before promoting, as text: darkest skin first, sensitivity first, losses marked."""

import textwrap
from collections.abc import Iterator, Sequence

from registry.bundle.metrics.patient import Told
from registry.comparison import Answering, Comparison, FigureChange, GateSaid, SubgroupChange
from registry.rendering.table import columns, lines_of

WIDTH = 100
"""Columns that the text keeps to where names and numbers let it."""

_SHORT = {
    "sensitivity at the working point": "sens. at working point",
    "specificity at the working point": "spec. at working point",
}
_HEADER = ("subgroup", "", "running", "candidate", "change")


def comparison_text(found: Comparison, *, terminal: int | None = None, refusals: bool = True) -> str:
    """The comparison as a table, what the gates say below each subgroup, and at the end what to know.

    Args:
        found: the comparison.
        terminal: columns of the terminal; a table that is wider is told figure below figure.
        refusals: whether to tell why gates refuse; an error that follows tells it too.
    """
    rows = [row for one in found.subgroups for row in _rows(one)]
    header, *table = columns(_HEADER, rows).split("\n")
    is_wide = terminal is not None and max(map(len, (header, *table))) > terminal
    lines = [_title(found), "", *([] if is_wide else [header])]
    for one in found.subgroups:
        many = len(_rows(one))
        told, table = table[:many], table[many:]
        lines += _stacked(one) if is_wide else told
        lines += [line for said in _verdicts(one.gates) for line in _wrapped(f"  {said}")]
    lines += ["", *(line for said in _verdicts(found.gates) for line in _wrapped(f"release, {said}"))]
    refused = [one for one in found.gates if one.verdict == "refused" and refusals]
    lines += [line for one in refused for line in _wrapped(f"gate {one.gate}: refused: {one.detail}")]
    if found.unreadable:
        lines += _wrapped(f"the running release cannot be read: {found.unreadable}")
    lines += [line for one in found.warnings for line in _wrapped(one)]
    if found.changes_nothing:
        lines += _wrapped("nothing would change: exactly this release runs")
    else:
        lines += _wrapped(f"LOSES: {', '.join(found.losses)}" if found.losses else "no figure is lost")
    return "\n".join(lines)


def _title(found: Comparison) -> str:
    release = "nothing runs" if found.release is None else f"release {found.release}"
    without = f", without a version for {', '.join(found.without)}" if found.without else ""
    numbers = ", ".join(map(str, sorted(found.candidate)))
    return lines_of([f"{found.model}, {found.alias}: {release} -> versions {numbers}{without}"])


def _rows(one: SubgroupChange) -> list[tuple[str, ...]]:
    changed = "changes" if one.version_changes else "the same"
    head = (one.subgroup, "answered by", _version(one.running), _version(one.candidate), changed)
    tested = ("", "test pictures", _tested(one.running), _tested(one.candidate), "")
    return [head, tested, *map(_figure, one.figures)]


def _stacked(one: SubgroupChange) -> list[str]:
    """The same rows for a narrow terminal: each figure with its change, and below it both values."""
    lines = []
    for subgroup, what, running, candidate, change in _rows(one):
        lines.append(f"{subgroup or ' '} {what}{f': {change}' if change else ''}")
        lines.append(f"    {running or 'nothing'} -> {candidate or 'nothing'}")
    return lines_of(lines).split("\n")


def _version(side: Answering | None) -> str:
    return "nobody" if side is None else f"version {side.version} ({'its own' if side.own else 'global'})"


def _tested(side: Answering | None) -> str:
    if side is None or side.n is None:
        return "none" if side is not None else ""
    if side.n_malignant is None or side.n_other is None:
        return f"{side.n}"
    return f"{side.n_malignant} malignant, {side.n_other} other"


def _figure(one: FigureChange) -> tuple[str, ...]:
    called = _SHORT.get(one.called, one.called)
    told = (_told(one.running), _told(one.candidate))
    if one.change is None:
        return "", called, *told, "GONE" if one.lost else ""
    return "", called, *told, f"{one.change:+.3f}{' WORSE' if one.lost else ''}"


def _told(told: Told | None) -> str:
    return "" if told is None else str(told)


def _verdicts(gates: Sequence[GateSaid]) -> Iterator[str]:
    """A line for each verdict, refusals first, with the gates that gave it."""
    verdicts = dict.fromkeys(one.verdict for one in gates)
    for verdict in sorted(verdicts, key=lambda verdict: verdict != "refused"):
        yield f"gates {verdict}: {', '.join(one.gate for one in gates if one.verdict == verdict)}"


def _wrapped(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    shown = lines_of([text])
    return textwrap.wrap(shown, WIDTH, subsequent_indent=indent, break_long_words=False) or [""]
