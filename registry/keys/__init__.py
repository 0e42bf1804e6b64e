"""API keys of the service.

- `secrets`: how a secret is made and hashed.
- `changes`: creating, rotating and revoking keys.
"""
