"""What people are shown of bundles, versions, releases and events.

A view is computed once into the plain records of `tables`, and drawn twice: by rich on a terminal, by one
set of Jinja macros (`macros.html`) on a page.

- `tables`: sections, tables and facts, and their renderers.
- `card`: the model card as JSON, with its sentences and standing; `card_page`: its sections and page.
- `changes`: what differs between two versions, what a promotion would change, what gates found.
- `records`: versions, releases, events, keys and people.
"""
