from hashlib import sha256

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from clients.data.manifest import Row, components, linkage_keys, name_groups, name_pictures, number_lesions


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=14))
def test_components_are_those_of_the_bipartite_graph(keys):
    rows = [row for row, shared in enumerate(keys) for _ in shared]
    columns = [len(keys) + key for shared in keys for key in shared]
    nodes = len(keys) + 10
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(nodes, nodes))
    _, expected = connected_components(graph, directed=False)
    found = components(keys)
    same = found[:, None] == found[None, :]
    assert (same == (expected[: len(keys), None] == expected[None, : len(keys)])).all()


def test_components_are_numbered_by_first_row():
    assert components([["a"], ["b"], [], ["c"], ["b", "c"]]).tolist() == [0, 1, 2, 1, 1]
    assert components([]).shape == (0,)


def test_lesion_patient_and_duplicate_tie_rows_and_kinds_do_not_mix():
    rows = [
        Row("a", lesion_id="1", patient_id="x"),
        Row("b", lesion_id="2", patient_id="x"),
        Row("c", lesion_id="2"),
        Row("d", lesion_id="3", extra={"duplicate_group": "1"}),
        Row("e", extra={"duplicate_group": "1"}),
        Row("f", patient_id="3"),
        Row("g"),
    ]
    assert components([linkage_keys(row) for row in rows]).tolist() == [0, 0, 0, 1, 1, 2, 3]


def test_a_lesion_stands_for_a_patient_who_is_not_known():
    rows = [
        Row("a", lesion_id="1", patient_id="x"),
        Row("b", lesion_id="2", patient_id="x"),
        Row("c", lesion_id="2"),  # nobody wrote whose; the lesion has one patient
        Row("d", lesion_id="3"),
        Row("e", lesion_id="3"),
        Row("f"),
    ]
    pictures, patients = name_pictures(rows, contents(rows)).T
    assert len(set(pictures.tolist())) == 6
    assert numbered(patients) == [0, 0, 0, 1, 1, 2]


def test_pictures_and_patients_keep_their_names_among_others():
    rows = [Row("a", lesion_id="1", patient_id="x"), Row("b", lesion_id="2"), Row("c")]
    more = [Row("d", patient_id="y"), Row("e", lesion_id="3", patient_id="x"), *rows]
    assert name_pictures(more, contents(more))[2:].tolist() == name_pictures(rows, contents(rows)).tolist()


def contents(rows: list[Row]) -> np.ndarray:
    """The digest of each picture's bytes."""
    return np.stack([np.frombuffer(sha256(row.image.encode()).digest(), dtype=np.uint8) for row in rows])


def numbered(found: np.ndarray) -> list[int]:
    """Names as numbers in the order in which they come."""
    return [list(dict.fromkeys(found.tolist())).index(name) for name in found.tolist()]


def test_pictures_without_a_lesion_are_lesions_of_their_own():
    rows = [Row("a", lesion_id="1"), Row("b"), Row("c", lesion_id="1"), Row("d")]
    assert number_lesions(rows).tolist() == [0, 1, 0, 2]


def test_lists_that_share_a_name_are_one_group():
    lists = [["b", "a"], ["c", "d"], ["e", "a"], ["d", "c"]]
    assert name_groups(lists) == {"b": "b", "a": "b", "e": "b", "c": "c", "d": "c"}
    assert name_groups([]) == {}
