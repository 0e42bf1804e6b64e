"""How the report calls a disease."""

from registry.bundle.labels import Label


def label_name(label: Label, *, malignancy: bool = False) -> str:
    """`Melanoma (MEL)`, with `malignancy` `Melanoma (MEL, malignant)`; nothing is said twice."""
    beside = [label.code]
    if malignancy and label.malignancy != "unknown":
        beside.append(label.malignancy)
    news = [word for word in dict.fromkeys(beside) if word.casefold() != label.name.casefold()]
    return f"{label.name} ({', '.join(news)})" if news else label.name
