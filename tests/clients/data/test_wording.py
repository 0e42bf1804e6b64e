from clients.data.wording import listing


def test_listing_counts_what_it_does_not_show() -> None:
    assert listing(["a", "b", "c"], limit=2) == "  a\n  b\n  ... and 1 more"


def test_listing_shows_all_of_few() -> None:
    assert listing(["a", "b"], limit=2) == "  a\n  b"
