"""The web pages: one to try a picture, others for the operator of the service.

Rendered on the server and complete without a script; style sheet and script are served from here. What a page
shows is computed by the same code as the API's responses.

- `picture_page`: the form to try a picture; `answer`: what the page shows of the diagnosis.
- `outcome_page`: giving the outcome of an answer.
- `operator_page`, `console_page`: releases and monitoring; what a promotion would change.
- `rendering`: templates and files.
"""
