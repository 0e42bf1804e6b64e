import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalization.report.data import Round, in_order, present
from personalization.report.peers import (
    outline_caption,
    outlined,
    peer_maps,
    peer_shares,
    similarity_maps,
)

COMMUNITIES = {"isic": ("i0", "i1"), "ham": ("h0", "h1"), "pad": ("p",)}
FACTS = {"by_community": {name: {"clients": list(of)} for name, of in COMMUNITIES.items()}}


@pytest.fixture
def rounds(line):
    """Four rounds; i0 was given i1 three times, h0 once; p was given h0 and i0 in the last round."""

    def peers(**of):
        return {"exchange": {client: {"peers": given} for client, given in of.items()}}

    return [
        line(1, models=peers(h0=[], i0=[])),
        line(2, models=peers(h0=["h1"], i0=["i1"])),
        line(3, models=peers(i0=["i1", "h0"], i1=["i0"])),
        line(4, models=peers(i0=["i1"], p=["h0", "i0"])),
    ]


def test_a_row_tells_how_often_a_client_was_given_each_other(rounds):
    shares = peer_shares(rounds, ["i0", "i1", "h0", "h1", "p"])
    assert shares == [
        [None, 0.75, 0.25, 0.0, 0.0],
        [1.0, None, 0.0, 0.0, 0.0],
        [0.0, 0.0, None, 1.0, 0.0],
        [None] * 5,  # h1 never took part
        [0.5, 0.0, 0.5, 0.0, None],
    ]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abcd"), st.lists(st.sampled_from("abcd"), max_size=3, unique=True), max_size=4
        ),
        max_size=6,
    )
)
def test_the_row_of_whoever_was_given_peers_sums_to_one(log):
    told = [
        {client: {"peers": [peer for peer in peers if peer != client]} for client, peers in entry.items()}
        for entry in log
    ]
    rounds = [
        Round.from_line(
            {
                "stage": "federate",
                "round": at,
                "asked": [],
                "answered": [],
                "models": {"global": {"exchange": entry}},
            }
        )
        for at, entry in enumerate(told, start=1)
    ]
    for client, row in zip("abcd", peer_shares(rounds, "abcd"), strict=True):
        known = [share for share in row if share is not None]
        if any(entry.get(client, {}).get("peers") for entry in told):
            assert sum(known) == pytest.approx(1)
        else:
            assert known == []


def test_the_map_of_peers_orders_clients_by_community_and_has_its_numbers(report, rounds):
    (panel,) = peer_maps(report(facts=FACTS, rounds=rounds))
    assert panel.numbers.columns == ("client", "i0", "i1", "h0", "h1", "p", "own community")
    first = [cell.text for cell in panel.numbers.rows[0].cells]
    assert first == ["–", "75.0\u202f%", "25.0\u202f%", "0.0\u202f%", "0.0\u202f%", "75.0\u202f%"]
    assert "Outlined from the upper left: isic and ham." in panel.caption
    assert "isic 87.5\u202f% and ham 100.0\u202f%" in panel.caption
    assert "i0 was given i1 most often, 75.0\u202f%" in panel.svg
    for name in ("i0", "h1", "75.0", "100.0"):
        assert f">{name}<" in panel.svg


def test_the_similarity_matrix_is_put_in_order_by_community(report):
    matrix = [[1.0, 0.2, 0.9], [0.2, 1.0, 0.3], [0.9, 0.3, 1.0]]
    facts = {**FACTS, "similarity": {"clients": ["i1", "p", "i0"], "matrix": matrix}}
    (panel,) = similarity_maps(report(facts=facts))
    assert panel.numbers.columns == ("client", "i0", "i1", "p")
    assert [[cell.text for cell in row.cells] for row in panel.numbers.rows] == [
        ["–", "0.900", "0.300"],
        ["0.900", "–", "0.200"],
        ["0.300", "0.200", "–"],
    ]
    assert "from 0.200 (no shade) to 0.900" in panel.caption
    assert "Outlined from the upper left: isic." in panel.caption


def test_a_name_is_no_formula(report):
    facts = {"similarity": {"clients": ["$x^2$", "a_b"], "matrix": [[1.0, 0.5], [0.4, 1.0]]}}
    (panel,) = similarity_maps(report(facts=facts))
    assert ">$x^2$<" in panel.svg


def test_order_and_outlines_of_clients():
    assert in_order(["p", "h1", "new", "i1"], COMMUNITIES) == ("i1", "h1", "p", "new")
    assert present(["i1", "h1"], COMMUNITIES) == {"isic": ["i1"], "ham": ["h1"]}
    assert outlined(["i0", "i1", "h1"], COMMUNITIES) == {"isic": ["i0", "i1"]}
    assert outline_caption(["i0", "h1"], COMMUNITIES) == ""
    # A client of two communities counts in the first, so that outlines do not overlap.
    assert present(["a", "b", "c"], {"x": ["a", "b"], "y": ["b", "c"]}) == {"x": ["a", "b"], "y": ["c"]}
