"""A problem as a page: what went wrong, and what to do."""

from serving.protocol.problems import ProblemResponse
from serving.web.rendering import render


def problem_page(problem: ProblemResponse, request_id: str) -> str:
    """The page of a problem with a request."""
    return render(
        "problem.html",
        here="",
        title=problem.title,
        detail=problem.detail,
        status=problem.status,
        request_id=request_id,
    )
