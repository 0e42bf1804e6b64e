"""The protocol between the service and its callers.

- `parameters`: the parameters of a request, and which version of a release answers for a declared skin tone.
- `schemas`: the shape of a diagnosis; triage in words; `fields`: how FHIR and the page show a field.
- `fhir`: a diagnosis as resources of FHIR R4 (4.0.1); `negotiation`: in which form a caller wants it.
- `documents`: the shape of every other answer; `problems`: of every error.
"""
