"""Draw the figures of `docs/results/` from the tables beside them; `--check` says which are out of date.

A figure shows a few columns of one CSV: a line for each row, a panel for each column, a dot for the value and
a bar for its 95 % interval where the table has one (`<column> low`, `<column> high`). Series of one panel
differ in shape and brightness. The files are SVG with their text as text, so that it can be searched; colours
follow the reader's light or dark scheme.

    python benchmarks/figures.py
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import matplotlib as mpl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator
from quick import print_table, start

RESULTS = Path("docs/results")
# Colours that stand for those of the reader's scheme while a figure is drawn: light, dark.
SCHEME: Mapping[str, tuple[str, str, str]] = {
    "#010203": ("ink", "#1f2328", "#e6edf3"),
    "#040506": ("soft", "#d0d7de", "#3d444d"),
    "#070809": ("first", "#0b4f8a", "#79c0ff"),
    "#0a0b0c": ("second", "#c2571a", "#ffb77a"),
    "#0d0e0f": ("third", "#6e7781", "#9da7b3"),
}
INK, SOFT, *SERIES = SCHEME
SHAPES = ("o", "s", "D")
FACE = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?")
TICKS = 11  # steps on all axes of a figure together
LINE, HEAD, WIDTH = 0.27, 0.75, 8.4  # inches: a row, what is above and below the rows, the whole figure
Row = Mapping[str, str]


@dataclass(frozen=True)
class Panel:
    """One column of figures side by side.

    Attributes:
        title: what is above it.
        columns: of the table, each a series.
        series: what the series are called, where there are several.
        line: a value to compare with.
        limits: the ends of the axis; by default those of the data.
        log: whether the axis is logarithmic.
    """

    title: str
    columns: tuple[str, ...]
    series: tuple[str, ...] = ()
    line: float | None = None
    limits: tuple[float, float] | None = None
    log: bool = False


@dataclass(frozen=True)
class Figure:
    """One figure: which rows of which table, and its panels.

    Attributes:
        name: of the SVG, and of the CSV unless `table` names another.
        panels: from left to right.
        label: the columns that name a line.
        table: the CSV, without its ending.
        said: how a line is called, with a place for each of `label`.
        where: only rows whose column has one of these values.
    """

    name: str
    panels: tuple[Panel, ...]
    label: tuple[str, ...]
    table: str = ""
    said: str = ""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def name_of(self, row: Row) -> str:
        """What stands before a line."""
        parts = [row[column] for column in self.label]
        return self.said.format(*parts) if self.said else ", ".join(parts)

    def rows(self, folder: Path) -> list[Row]:
        """The rows that are shown."""
        with (folder / "tables" / f"{self.table or self.name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [row for row in rows if all(row[key] in allowed for key, allowed in self.where.items())]


def number(row: Row, column: str) -> float | None:
    """The number that a cell begins with, if it does; `0.44 (0.49)` is 0.44, `1,000` a thousand."""
    found = NUMBER.match(row.get(column, ""))
    return float(found[0].replace(",", "")) if found else None


def draw_panel(axes: Axes, panel: Panel, rows: Sequence[Row], ticks: int) -> None:
    """Dots and bars of one panel, with so many steps on its axis; lines are numbered from the top."""
    many = len(panel.columns)
    for place, column in enumerate(panel.columns):
        shift = (place - (many - 1) / 2) * (0.5 / many)
        for line, row in enumerate(rows):
            value = number(row, column)
            if value is None:
                continue
            low, high = number(row, f"{column} low"), number(row, f"{column} high")
            if low is not None and high is not None:
                axes.plot(
                    [low, high], [line + shift] * 2, color=SERIES[place], linewidth=2, solid_capstyle="butt"
                )
            shape = {
                "marker": SHAPES[place],
                "markersize": 5.5,
                "color": SERIES[place],
                "linestyle": "none",
                "clip_on": False,
            }
            axes.plot(
                [value],
                [line + shift],
                **shape,
                label=panel.series[place] if panel.series and not line else "",
            )
    if panel.line is not None:
        axes.axvline(panel.line, color=INK, linewidth=1, linestyle=(0, (3, 3)))
    if panel.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    if panel.limits:
        axes.set_xlim(*panel.limits)
    if not panel.log:
        axes.xaxis.set_major_locator(MaxNLocator(ticks))
    axes.set_title(panel.title, fontsize=9.5, color=INK, loc="left")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", color=SOFT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=8.5, length=0)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(SOFT)


def draw(figure: Figure, folder: Path = RESULTS) -> str:
    """The figure as SVG."""
    rows = figure.rows(folder)
    if not rows:
        raise SystemExit(
            f"{figure.name}: no row of {figure.table or figure.name}.csv is to be shown; see `where`"
        )
    settings = {"svg.fonttype": "none", "svg.hashsalt": "dermfed", "font.size": 9, "axes.unicode_minus": True}
    with mpl.rc_context(settings):
        series = max((panel.series for panel in figure.panels), key=len)
        drawing = Drawing(
            figsize=(WIDTH, HEAD + LINE * len(rows) * (1.25 if series else 1) + (0.3 if series else 0))
        )
        columns = drawing.subplots(1, len(figure.panels), sharey=True, squeeze=False)[0]
        for axes, panel in zip(columns, figure.panels, strict=True):
            draw_panel(axes, panel, rows, TICKS // len(figure.panels))
        columns[0].set_yticks(range(len(rows)), [figure.name_of(row) for row in rows])
        if series:
            labelled = next(axes for axes, panel in zip(columns, figure.panels, strict=True) if panel.series)
            drawing.legend(
                *labelled.get_legend_handles_labels(),
                loc="lower center",
                ncols=len(series),
                frameon=False,
                labelcolor=INK,
                fontsize=9,
            )
        drawing.tight_layout(rect=(0, 0.3 / drawing.get_figheight() if series else 0, 1, 1), w_pad=2)
        written = io.StringIO()
        drawing.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return in_scheme(written.getvalue())


def in_scheme(svg: str) -> str:
    """The drawing with the reader's colours and fonts in place of those it was drawn with."""
    light = "; ".join(f"--{name}: {colour}" for name, colour, _ in SCHEME.values())
    dark = "; ".join(f"--{name}: {colour}" for name, _, colour in SCHEME.values())
    for drawn, (name, *_) in SCHEME.items():
        svg = svg.replace(drawn, f"var(--{name})")
    svg = re.sub(r"font: ([^;\"]*?) 'DejaVu Sans'[^;\"]*", rf"font: \1 {FACE}".replace("'", "&apos;"), svg)
    style = f"<style>svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    head, rest = re.sub(r"^<\?xml.*?<svg", "<svg", svg, flags=re.DOTALL).split(">", 1)
    head = re.sub(r' (width|height)="[^"]*pt"', "", head)
    return f"{head}>{style}{rest}"


TONES = ("all", "dark", "medium", "light")


def by_tone(figure: str, *, limits: tuple[float, float] | None = None) -> tuple[Panel, ...]:
    """A panel for each skin tone."""
    return tuple(Panel(f"{figure}, {tone}", (f"{figure}, {tone}",), limits=limits) for tone in TONES)


def answer_and_point(figure: str, tone: str) -> Panel:
    """What the answer finds, and what the working point does."""
    columns = (f"{figure} of the answer, {tone}", f"{figure} at the point, {tone}")
    return Panel(f"{figure}, {tone} skin", columns, ("answer", "working point"), limits=(0, 1))


FIGURES: tuple[Figure, ...] = (
    Figure("model-for-use", by_tone("AUROC", limits=(0.45, 0.95)), ("system",)),
    Figure(
        "working-point",
        tuple(
            answer_and_point(figure, tone)
            for figure in ("sensitivity", "specificity")
            for tone in ("dark", "light")
        ),
        ("system",),
    ),
    Figure(
        "maps",
        (
            Panel("costs more than elsewhere", ("costs more than elsewhere",), line=0.5, limits=(0, 1)),
            Panel("than another's map", ("than another picture's",), line=0.5, limits=(0, 1)),
            Panel("points at the lesion", ("points at the lesion",), limits=(0, 1)),
            Panel("of shuffled weights", ("shuffled points",), limits=(0, 1)),
        ),
        ("of",),
    ),
    Figure(
        "unseen-sources",
        tuple(
            Panel(column.split()[0], (column,), limits=(0, 1), line=0.5 if column[0] == "A" else None)
            for column in ("AUROC of malignancy", "sensitivity", "specificity")
        ),
        ("system", "judged by"),
    ),
    Figure(
        "fairness-encoder",
        tuple(
            Panel(f"{short}, {tone} skin", (f"{figure}, {tone}",), limits=(0.45, 1))
            for short, figure in (("sensitivity", "malignant sensitivity"), ("AUROC", "AUROC of malignancy"))
            for tone in ("dark", "light")
        ),
        ("system",),
    ),
    Figure(
        "closing-the-gap",
        tuple(
            Panel(f"AUROC, {name.split()[0]} skin", (name,), limits=(0.45, 0.95))
            for name in ("dark (99)", "medium (509)", "light (231)")
        ),
        ("system",),
        table="closing-the-gap-auroc",
    ),
    Figure(
        "confidence",
        (
            Panel("sets hold the right answer", ("coverage",), line=0.9, limits=(0.7, 1)),
            Panel("calibration error", ("ECE before", "ECE after"), ("before", "after temperature scaling")),
        ),
        ("system", "subgroup"),
        table="confidence-malignancy",
        where={"system": ("none", "finetune", "head", "norm")},
    ),
    Figure(
        "outcome-alarms",
        (
            Panel(
                "% of years with a false alarm",
                ("accused", "fixed: accused"),
                ("alarm", "a test for one look"),
                line=5,
                limits=(0, 100),
            ),
            Panel("% of years in which a loss is found", ("found",), limits=(0, 100)),
        ),
        ("followed up", "outcomes arrive"),
        said="{0}; {1}",
    ),
    Figure(
        "unknown-diseases",
        (
            Panel(
                "AUROC of unknown among known",
                ("distance", "1 − max p"),
                ("distance", "1 − max p"),
                line=0.5,
                limits=(0, 1),
            ),
        ),
        ("AUROC of unknown (n) in known (n)",),
    ),
    Figure(
        "frozen-features",
        tuple(
            Panel(
                f"more AUROC, {share}",
                (f"difference, {share} of labels",),
                line=0,
                limits=(-0.05, 0.15),
            )
            for share in ("1%", "5%", "10%", "100%")
        ),
        ("encoder", "judge"),
        where={"encoder": ("FedSimCLR", "Local SimCLR")},
    ),
    Figure(
        "pretraining-methods",
        (
            Panel("AUROC, fine-tuned together", ("auroc",)),
            Panel("balanced accuracy", ("balanced accuracy",)),
        ),
        ("system",),
    ),
    Figure(
        "peers-from-imagenet",
        tuple(
            Panel(title, (title,))
            for title in ("malignant sensitivity", "malignant specificity", "AUROC", "balanced accuracy")
        ),
        ("system",),
    ),
    Figure(
        "peers-global-model",
        (Panel("AUROC of the global model", ("auroc",)), Panel("balanced accuracy", ("balanced accuracy",))),
        ("system",),
        where={
            "system": (
                "local",
                "fedavg-labelled",
                "ssfl",
                "fedmatch",
                "fedperl",
                "fedirm",
                "semi-fl",
                "local@upper",
                "fedavg-labelled@upper",
            )
        },
    ),
    Figure(
        "simulators",
        (
            Panel("seconds a round", ("s a round",), log=True),
            Panel("of dermfed's", ("/ dermfed",), line=1, log=True),
        ),
        ("a client's round", "simulator"),
        said="{}: {}",
    ),
    Figure(
        "service-throughput",
        (
            Panel("pictures a second", ("pictures a second",)),
            Panel("of ONNX Runtime alone", ("of the limit",), line=1),
            Panel("99th percentile, ms", ("p99, ms",), log=True),
        ),
        ("at once", "service"),
        said="at once: {}, {}",
    ),
    Figure(
        "registry-many-versions",
        (
            Panel(
                "ms, a process that runs",
                ("100 versions", "10,000 versions"),
                ("100 versions", "10,000 versions"),
                log=True,
            ),
        ),
        ("command",),
    ),
    Figure(
        "pictures-out-of-updates",
        (
            Panel("likeness to the picture, dB", ("PSNR, dB",)),
            Panel("SSIM", ("SSIM",), limits=(0, 1)),
        ),
        ("what the attacker sees",),
    ),
    Figure(
        "noise-on-counts",
        (
            Panel(
                "width of the 95 % interval",
                ("without noise", "ε = 8", "ε = 1"),
                ("without noise", "ε = 8", "ε = 1"),
            ),
        ),
        ("pictures", "figure"),
    ),
    Figure(
        "mutants",
        (Panel("share of mutants that a test notices", ("noticed",), limits=(0.75, 1)),),
        ("room",),
    ),
    Figure(
        "skin-tone",
        (
            Panel("rank correlation", ("rank correlation",), line=0),
            Panel("the right third of tones", ("right third",), limits=(0, 1)),
        ),
        ("pictures of", "angle of"),
        table="skin-tone-from-pixels",
    ),
    Figure(
        "honesty",
        (
            Panel(
                "not malignant, below the threshold",
                ("one place", "four under masks", "four in the clear"),
                ("one place", "four hospitals under masks", "in the clear"),
            ),
        ),
        ("missed at most", "tone"),
        said="{}, {}",
    ),
    Figure(
        "near-duplicates",
        tuple(
            Panel(f"copies found, {title}", (f"recall, {name}",), limits=(0.95, 1))
            for title, name in (("MILK10k", "milk10k"), ("HAM10000", "ham10000"))
        ),
        ("crop", "resize", "quality"),
        said="crop {}, size {}, quality {}",
        where={"quality": ("60", "95")},
    ),
)


def main(
    folder: Annotated[Path, typer.Option(help="Where the tables are and the figures go.")] = RESULTS,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; say what is out of date.")] = False,
) -> None:
    """Draw all of them, and print which table each is drawn from."""
    print_table(["figure", "table"], [[figure.name, figure.table or figure.name] for figure in FIGURES])
    behind = []
    for figure in FIGURES:
        path = folder / "figures" / f"{figure.name}.svg"
        drawn = draw(figure, folder)
        if check and (not path.exists() or path.read_text() != drawn):
            behind.append(path)
        elif not check:
            path.write_text(drawn)
    if behind:
        raise SystemExit(f"not of their tables: {', '.join(map(str, behind))}; run benchmarks/figures.py")


if __name__ == "__main__":
    start(main, "--check")
