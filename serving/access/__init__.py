"""Access: who may ask, how often, and how many requests at once.

- `auth`: API keys and their scopes.
- `limits`: rate limits by key and by address.
- `admission`: admission control, deadlines and draining.
"""
