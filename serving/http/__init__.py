"""HTTP: routes, middleware, uploads, and the OpenAPI description.

- `app`: the ASGI application of all routes; `endpoints`: what each path answers.
- `middleware`: id, time, log line and problem documents around every request; `headers`: security headers.
- `upload`: the picture and the form's fields in a body; `polyglot`: files that are more than a picture.
- `openapi`, `examples`, `docs_page`: the description of the interface, its examples, and its page.
"""
