import pytest

from clients.data.output import listing, listing_by_cause


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\x1b[2J.jpg", r"a\x1b[2J.jpg"), ("a\nb.jpg", r"a\nb.jpg"), ("z.zip::\x9bm\r", r"z.zip::\x9bm\r")],
)
def test_a_name_steers_no_terminal_and_ends_no_line(name, shown):
    assert listing([name]) == f"  {shown}"
    assert listing_by_cause({f"like {name}": [name]}) == f"1: like {shown}\n  {shown}"
