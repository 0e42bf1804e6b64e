"""The HTTP service over released models: a picture comes in, a diagnosis or "refer" goes out.

It knows the registry and nothing of how models were made: no torch is installed where it runs.

- `service`: what BentoML runs; `app`: our own routes, which answer every request; `endpoints`: what each path
  answers, over what `running` shares while the service runs.
- `upload`, `parameters`, `polyglot`: reading what an app sends, and refusing what is not a picture.
- `live`: what `production` points to, kept up to date; `loading`: its versions, made ready; `routing`: which
  of them answers.
- `admission`: who is let in and until when he is worked for; `draining`: the service's last second.
- `predictor`: from a picture to a diagnosis; `batching`: which pictures a model is shown when; `schemas`: the
  answer's shape; `quality`, `tone`, `reasons`: what is said of the picture, of the tone declared with it, and
  why the answer is what it is; `examples` of all of it.
- `monitoring`: what is looked at once an answer has been sent: `drift` from the test, and a `shadow` beside
  production; `metrics`, and `totals` over all workers.
- `auth`: API keys and what they open; `limits`: how often, by `rates` that all workers keep; `records`: what
  is kept of each diagnosis; `headers`: what browsers are told of every answer.
- `problems`: the one shape of every error; `card`, `openapi`: the rest.

`docs/service.md` describes it for the developer of an app.
"""

import os

# Pictures are what is worked on side by side: NumPy's own threads would only wait for each other, at full
# speed. It reads this when it is loaded, which is after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
