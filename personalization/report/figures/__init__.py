"""The figures of the report: each module draws one kind and gives the numbers behind it."""
