"""The HTTP service over released models: a picture comes in, a diagnosis or "refer" goes out.

It knows the registry and nothing of how models were made: no torch is installed where it runs.

- `cli`: `dermfed-serve`; `server`: keeps workers on the port; `service`: the same for BentoML; `settings`:
  what an operator can set; `logs`: what is written to the log.
- `state`: the parts of a running service, which all endpoints share.
- `http`: routes, middleware, uploads and the OpenAPI description; `web`: the pages for people.
- `protocol`: parameters, answers, also as FHIR, errors, and which version of a release answers.
- `auth`: API keys and their scopes; `limits`: rates by key and address; `admission`: requests at once.
- `inference`: decoding a picture, the dynamic batcher, and the diagnosis; `cores`: the threads it may use.
- `releases`: the current release, polled from the registry and loaded.
- `monitoring`: drift, shadow comparisons and the decision log; `metrics`: counters, summed over all workers.

`docs/service.md` describes it for the developer of an app.
"""

# By this line dermfed/own_names.py knows that no other distribution wrote over this file.

import os

# Pictures are what is worked on side by side: NumPy's own threads would only wait for each other, at full
# speed. It reads this when it is loaded, which is after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
