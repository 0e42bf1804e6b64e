"""A diagnosis as resources of FHIR R4 (4.0.1), for systems that keep medical records."""
