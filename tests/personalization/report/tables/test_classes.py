from personalization.report.tables.classes import class_table, class_tables_over_clients
from registry.bundle.metrics.over_clients import over_clients


def cells(table, row):
    return dict(zip(table.columns[1:], [cell.text for cell in table.rows[row].cells], strict=True))


def test_figures_of_every_disease_by_hand(report, block):
    data = report()
    # In two subgroups together: 8 of 10 melanomas found, 30 of 40 naevi; 10 naevi are called melanoma.
    blocks = {"light": block(5, 2, 10, 10), "dark": block(3, 0, 20, 0)}
    table = class_table("federate", blocks, data.labels)
    melanoma = cells(table, 0)
    assert [row.header for row in table.rows] == ["Melanoma (MEL)", "Nevus (NV)"]
    assert melanoma["pictures"] == "10"
    assert melanoma["recall"] == "0.800"
    assert melanoma["precision"] == f"{8 / 18:.3f}"
    assert melanoma["F1"] == f"{16 / 28:.3f}"
    # 8 of 10 melanomas and 10 of 40 naevi score 0.8, the others 0.2.
    assert melanoma["AUROC"] == f"{0.8 * 0.75 + (0.8 * 0.25 + 0.2 * 0.75) / 2:.3f}"
    assert melanoma["AUPRC"] == f"{0.8 * 8 / 18 + 0.2 * 10 / 50:.3f}"
    assert cells(table, 1)["recall"] == "0.750"
    assert [row.cells[0].faint for row in table.rows] == [True, False]


def test_every_figure_has_its_interval(report, block):
    data = report()
    with_them = class_table("federate", {"light": block(80, 20, 10, 40)}, data.labels)
    assert all(" to " in cell.note for row in with_them.rows for cell in row.cells[1:])
    for row, recall in zip(with_them.rows, (0.8, 0.2), strict=True):
        low, high = map(float, row.cells[1].note.split(" to "))
        assert recall - 0.2 < low < recall < high < recall + 0.2


def test_a_class_without_pictures_is_absent(report, block):
    table = class_table("federate", {"light": block(0, 0, 5, 1)}, report().labels)
    assert cells(table, 0) == {
        "pictures": "0",
        "recall": "–",
        "precision": "–",
        "F1": "–",
        "AUROC": "–",
        "AUPRC": "–",
    }


def test_means_over_clients_say_of_how_many(report, block):
    blocks = {"north": block(3, 1, 2, 2), "south": block(1, 1, 0, 0)}
    (table,) = class_tables_over_clients(report(facts=over_clients(blocks, codes=["MEL", "NV"])))
    assert cells(table, 0)["clients"] == "2"
    assert cells(table, 0)["recall"] == f"{(0.75 + 0.5) / 2:.3f}"
    assert cells(table, 1)["clients"] == "1"
    assert table.rows[0].header == "Melanoma (MEL)"


def test_without_figures_by_class_there_is_no_such_table(report, block):
    assert class_tables_over_clients(report(facts=over_clients({"north": block(1, 1, 1, 1)}))) == ()
