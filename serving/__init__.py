"""The HTTP service over released models: a picture comes in, a diagnosis or "refer" goes out.

It knows the registry and nothing of how models were made: no torch is installed where it runs.

- `service`: what BentoML runs; `app`: our own routes, which answer every request.
- `upload`, `parameters`, `polyglot`: reading what an app sends, and refusing what is not a picture.
- `live`: what `production` points to, kept up to date; `routing`: which of its versions answers.
- `predictor`: from a picture to a diagnosis; `schemas`: the answer's shape.
- `problems`: the one shape of every error; `auth`: API keys; `metrics`, `card`, `openapi`: the rest.

`docs/service.md` describes it for the developer of an app.
"""
