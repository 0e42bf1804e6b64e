import pytest

from personalization.report.run_tables import communication_tables

WEIGHTS = 1_000_000


def told(beside=0, times=1):
    return {"down": times * (WEIGHTS + beside), "beside": times * beside, "up": times * WEIGHTS}


@pytest.fixture
def rounds(line):
    """Warm-up of two rounds, then two in which a and b get a model beside; b misses the third."""
    return [
        line(1, bytes_by_client={"a": told(), "b": told(), "server": told()}),
        line(2, bytes_by_client={"a": told(), "b": told(), "server": told()}),
        line(3, bytes_by_client={"a": told(WEIGHTS), "c": told(), "server": told()}),
        line(4, bytes_by_client={"a": told(WEIGHTS), "b": told(WEIGHTS), "server": told(3 * WEIGHTS)}),
    ]


def cells(table, header):
    row = next(row for row in table.rows if row.header == header)
    return [cell.text for cell in row.cells]


def test_bytes_and_additional_cost_by_hand(report, rounds):
    (table,) = communication_tables(report(rounds=rounds))
    assert table.columns[-1] == "in the 2 rounds with an exchange"
    assert cells(table, "a") == [
        "6.0\u202fMB",
        "4.0\u202fMB",
        "2.0\u202fMB",
        "4.0\u202fMB",
        "50.0\u202f%",
        "100.0\u202f%",
    ]
    assert cells(table, "c")[4:] == ["0.0\u202f%", "0.0\u202f%"]
    # Weights to a four times, to b three times and to c once; models beside to a twice and to b once.
    assert cells(table, "all clients") == [
        "11.0\u202fMB",
        "8.0\u202fMB",
        "3.0\u202fMB",
        "8.0\u202fMB",
        "37.5\u202f%",
        "75.0\u202f%",  # in rounds 3 and 4: three beside, four weights
    ]


def test_the_coordinators_own_client_is_apart_and_last(report, rounds):
    (table,) = communication_tables(report(rounds=rounds))
    assert [row.header for row in table.rows] == ["a", "b", "c", "all clients", "server, in no sum"]
    assert cells(table, "server, in no sum")[:2] == ["7.0\u202fMB", "4.0\u202fMB"]


def test_stages_are_counted_apart_and_clients_stand_by_community(report, line):
    facts = {"by_community": {"late": {"clients": ["b"]}}}
    rounds = [
        line(1, stage="finetune", bytes_by_client={"a": told()}),
        line(1, bytes_by_client={"a": told(), "b": told(times=2)}),
    ]
    first, second = communication_tables(report(facts=facts, rounds=rounds))
    assert [row.header for row in first.rows] == ["a", "all clients"]
    assert [row.header for row in second.rows] == ["b", "a", "all clients"]
    assert cells(second, "b")[0] == "2.0\u202fMB"
