from clients.data.wording import LISTED, listing


def test_listing_counts_what_it_does_not_show() -> None:
    names = [f"name {place}" for place in range(LISTED + 3)]
    lines = listing(names).splitlines()
    assert lines[0] == "  name 0"
    assert lines[LISTED - 1 :] == [f"  name {LISTED - 1}", "  ... and 3 more"]


def test_listing_shows_all_of_few() -> None:
    names = [f"name {place}" for place in range(LISTED)]
    assert listing(names) == "\n".join(f"  {name}" for name in names)
