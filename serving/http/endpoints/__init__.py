"""The endpoints of the interface, each a class over the shared `serving.state.ServiceState`.

- `diagnoses`: `POST /v1/diagnoses`.
- `models`: what is served, and the models' cards.
- `health`: liveness, readiness and Prometheus metrics.
- `description`: the OpenAPI document and its page.
- `pages`: the pages for people.
"""
