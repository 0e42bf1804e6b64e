"""A panel: one small figure that fits a phone, with its title, caption and the numbers behind it."""

from dataclasses import dataclass

from markupsafe import Markup

from personalization.report.tables import Table


@dataclass(frozen=True)
class Panel:
    """One figure on the page.

    Attributes:
        title: what it shows.
        svg: the picture.
        caption: how to read it, one line; may be empty.
        numbers: what it draws, as a table; None where a table beside it says the same.
    """

    title: str
    svg: Markup
    caption: str = ""
    numbers: Table | None = None
