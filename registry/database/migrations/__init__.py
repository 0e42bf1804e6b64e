"""The schema migrations of the registry's database, in order."""
