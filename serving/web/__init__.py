"""The pages for people: try a picture, and what whoever runs the service has to see.

Rendered here and complete without a script; style sheet and script are files of ours. What a page shows is
computed by the same code as the interface's answers.

- `picture_page`: the form on which a lesion is tried; `answer`: what the page shows of its answer.
- `outcome_page`: giving the outcome of an answer.
- `operator_page`, `console_page`: releases and monitoring; what a promotion would change.
- `rendering`: templates and files.
"""
