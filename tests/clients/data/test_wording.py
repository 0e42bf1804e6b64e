import pytest

from clients.data.wording import LISTED, listing, listing_by_cause


def test_listing_counts_what_it_does_not_show() -> None:
    names = [f"name {place}" for place in range(LISTED + 3)]
    lines = listing(names).splitlines()
    assert lines[0] == "  name 0"
    assert lines[LISTED - 1 :] == [f"  name {LISTED - 1}", "  ... and 3 more"]


def test_listing_shows_all_of_few() -> None:
    names = [f"name {place}" for place in range(LISTED)]
    assert listing(names) == "\n".join(f"  {name}" for name in names)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\x1b[2J.jpg", r"a\x1b[2J.jpg"), ("a\nb.jpg", r"a\nb.jpg"), ("z.zip::\x9bm\r", r"z.zip::\x9bm\r")],
)
def test_a_name_steers_no_terminal_and_ends_no_line(name: str, shown: str) -> None:
    assert listing([name]) == f"  {shown}"
    assert listing_by_cause({f"like {name}": [name]}) == f"1: like {shown}\n  {shown}"
