"""Dredge's pages: what runs found, did and kept, for people with a browser. They only read.

    places.py    where runs lie: one place for each repository
    history.py   the runs of a place, and the report of one
    objects.py   the candidates and the ledger of a run, a page of rows at a time
    figures.py   what the overview and the page of a repository add up
    web.py       addresses → pages; `templates/` draws them, `static/` styles them

`dredge ui` serves them alone; `plugins/dredge_pages.py` hangs them into Airflow, which asks who may see them.
All text that comes from a lake is hostile: templates escape it, and no part of an address becomes a path.
"""
