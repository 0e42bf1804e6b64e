from personalization.report.subgroups import class_table, class_tables_over_clients
from registry.bundle.metrics.summary import over_clients

OF_NO_KIND = {"malignancy": "unknown"}


def cells(table, row):
    return dict(zip(table.columns[1:], [cell.text for cell in table.rows[row].cells], strict=True))


def test_figures_of_every_disease_by_hand(report, block):
    data = report()
    # In two subgroups together: 32 of 40 melanomas found, 15 of 20 naevi; 5 naevi are called melanoma.
    blocks = {"light": block(20, 8, 5, 5), "dark": block(12, 0, 10, 0)}
    # Of two classes one of which is malignant, AUROC is that of malignancy, which other tables tell.
    assert "AUROC" not in class_table("federate", blocks, data.labels).columns
    table = class_table("federate", blocks, [label.model_copy(update=OF_NO_KIND) for label in data.labels])
    melanoma = cells(table, 0)
    assert [row.header for row in table.rows] == ["Melanoma (MEL)", "Nevus (NV)"]
    assert melanoma["pictures"] == "40"
    assert melanoma["recall"] == "0.800"
    assert melanoma["precision"] == f"{32 / 37:.3f}"
    assert melanoma["F1"] == f"{64 / 77:.3f}"
    # 32 of 40 melanomas and 5 of 20 naevi score 0.8, the others 0.2.
    assert melanoma["AUROC"] == f"{0.8 * 0.75 + (0.8 * 0.25 + 0.2 * 0.75) / 2:.3f}"
    # Whatever the order at one score, the share of melanomas is the same in expectation.
    assert 0.8 < float(melanoma["AUPRC"]) < 0.9
    assert cells(table, 1)["AUPRC"] == "–"  # of 20 pictures
    assert cells(table, 1)["recall"] == "0.750"


def test_a_class_without_pictures_is_absent(report, block):
    table = class_table("federate", {"light": block(0, 0, 5, 1)}, report().labels)
    assert cells(table, 0) == {
        "pictures": "0",
        "recall": "–",
        "precision": "–",
        "F1": "–",
        "AUPRC": "–",
    }


def test_means_over_clients_say_of_how_many(report, block):
    blocks = {"north": block(3, 1, 2, 2), "south": block(1, 1, 0, 0)}
    (table,) = class_tables_over_clients(report(facts=over_clients(blocks, codes=["MEL", "NV"])))
    assert cells(table, 0)["clients"] == "2"
    assert cells(table, 0)["recall"] == f"{(0.75 + 0.5) / 2:.3f}"
    assert cells(table, 1)["clients"] == "1"
    assert table.rows[0].header == "Melanoma (MEL)"
