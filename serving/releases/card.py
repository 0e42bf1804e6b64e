"""The model card of a loaded release, made as the registry makes its cards."""

from registry.views.card import Entry, release_card
from registry.views.card_page import card_page as page
from serving.protocol.documents import Card
from serving.releases.current_release import LoadedRelease


def card(loaded: LoadedRelease, alias: str) -> Card:
    """The model card of a loaded release, its global version first."""
    entries = [Entry.of(one.version, one.manifest) for one in loaded.versions.values()]
    return Card.model_validate(release_card(entries, release=loaded.release, alias=alias))


def card_page(shown: Card) -> str:
    """The HTML page of a model card, which loads nothing from elsewhere."""
    return page(shown.model_dump(mode="json"))
