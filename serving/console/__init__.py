"""The console: what whoever promotes compares, signs with their own key, and does to a model.

An action is done in two steps. `signing.prepare` tries it in a registry that keeps nothing, and answers the
statements that are to be signed; the page signs them with a key that it sends nowhere; `signing.act` does the
action, which holds for exactly these statements.
"""
