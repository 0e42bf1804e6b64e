"""What the service writes to its log: a line for each request, without its contents, and what goes wrong."""

import logging


def set_up_logs() -> None:
    """Lets the service's lines through, and of others what is a warning, to the standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s [%(levelname)s] [%(process)d] %(message)s")
    logging.getLogger("dermfed").setLevel(logging.INFO)
    quieten()


def quieten() -> None:
    """Silences those who quote what is sent, or have a line for each caller who sends no HTTP."""
    # It quotes bytes of what is sent; what is wrong with a form is reported to its sender.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
