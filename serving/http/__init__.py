"""HTTP: routes, middleware, uploads, and the OpenAPI description.

- `app`: the ASGI application of all routes; `endpoints`: what each path answers.
- `middleware`: id, time, log line and problem documents around every request; `headers`: security headers.
- `body`: a body as it comes in; `upload`: the picture and the form's fields in one.
- `openapi`, `asking`, `examples`, `docs_page`: the description of the interface, of what is sent, its
  examples, and its page.
"""
