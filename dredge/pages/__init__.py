"""Dredge's pages: what runs found, did and kept, for people with a browser. They only read.

    places.py        where runs lie: one place for each repository
    history.py       the runs of a place, and the report of one; `trash.py`: those of the trash cleaner
    running.py       how far a run is
    objects.py       the candidates and the ledger of a run, a page of rows at a time; `downloads.py`: as a file
    restoring.py     what of a run's deletions would come back
    keeping.py       how the next run will work, and which slices it lists
    expirations.py   plans of Icechunk expirations
    figures.py       what the overview and the page of a repository add up
    questions.py     what keeps an object
    surroundings.py  what Airflow knows, where it is around the pages
    drawing.py       what each page shows; `templates/` draw it, `static/` styles it
    web.py           addresses → pages

`dredge ui` serves them alone; `plugins/dredge_pages.py` hangs them into Airflow, which asks who may see them, and in
whose name a restore is started. All text that comes from a lake is hostile: templates escape it, and no part of an
address becomes a path.
"""
