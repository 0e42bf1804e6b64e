"""A problem as a page: what went wrong, and what to do, in the reader's language."""

from registry.bundle.message import Message
from serving.protocol.problems import ProblemResponse
from serving.web.catalogue import catalogue
from serving.web.languages import Chosen
from serving.web.rendering import render
from serving.web.vocabulary import PROBLEMS


def problem_page(problem: ProblemResponse, request_id: str, chosen: Chosen, *, translated: bool) -> str:
    """The page of a problem.

    A detail that the language has no words for stays English and is marked as such; above it stands what to
    do about problems of its kind.

    Args:
        problem: what went wrong.
        request_id: whose.
        chosen: the language.
        translated: whether the page is there in every language, so that a reader may change it.
    """
    told = PROBLEMS.get(problem.name)
    understood = catalogue(chosen.code).knows(problem.detail)
    return render(
        "problem.html",
        chosen,
        translated=translated,
        here="",
        title=Message(problem.title),
        advice=None if understood or told is None else told.advice,
        detail=problem.detail,
        understood=understood,
        status=problem.status,
        request_id=request_id,
    )
