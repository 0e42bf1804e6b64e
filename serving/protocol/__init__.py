"""The protocol between the service and its callers.

- `parameters`: the parameters of a request.
- `schemas`: the shape of every answer.
- `problems`: the shape of every error.
- `routing`: which version of a release answers for a declared skin tone.
"""
