"""Tabs of a headless Chromium on the page that answers."""

import pytest

SCREEN, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def tab(chromium, service):
    """`tab(viewport, **options)`: a tab on `/`; `asked` are its requests, `said` its complaints."""
    contexts = []

    def show(viewport=SCREEN, **options):
        context = chromium.new_context(viewport=viewport, base_url=service.url, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.asked, tab.said = [], []
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.goto("/")
        return tab

    yield show
    for context in contexts:
        context.close()


@pytest.fixture
def lesion(picture, tmp_path):
    """A file to choose."""
    path = tmp_path / "lesion.jpg"
    path.write_bytes(picture(size=(320, 240)))
    return path


def ask(tab, file, tone="fitzpatrick 5"):
    tab.set_input_files("#image", str(file))
    tab.select_option("#tone", tone)
    tab.evaluate("document.querySelector('#answer')?.removeAttribute('id')")  # that of the picture before
    tab.click("#submit")
    tab.wait_for_selector("#answer")
