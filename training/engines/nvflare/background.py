"""Work in a thread that nobody has to wait for: a call into a network may take as long as it likes."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def in_background(work: Callable[[], Result], name: str) -> "Future[Result]":
    """Start `work` in a thread that does not keep the process alive; what it raises is in the future, too."""
    future: Future[Result] = Future()

    def carry() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised again by whoever asks the future
            future.set_exception(error)

    threading.Thread(target=carry, daemon=True, name=name).start()
    return future
