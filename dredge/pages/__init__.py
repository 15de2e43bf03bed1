"""Dredge's pages: what runs found, did and kept, for people with a browser. They only read.

    places.py        where runs lie: one place for each repository
    history.py       the runs of a place, the report of one, and how far it is; `trash.py`: those of the trash cleaner
    objects.py       the candidates and the ledger of a run, a page of rows at a time; `object_rows.py` reads the rows
    restoring.py     what of a run's deletions would come back, and what brings it back
    figures.py       what the pages of places add up, how the next run will work, plans of Icechunk expirations
    surroundings.py  what Airflow knows, where it is around the pages, and what a lakeFS server tells
    drawing.py       what each page shows; `templates/` draw it, `static/` styles it
    web.py           addresses → pages; `hosts.py`: which names the server answers to

`dredge ui` serves them alone; `plugins/dredge_pages.py` hangs them into Airflow, which asks who may see them, and in
whose name a restore is started. All text that comes from a lake is hostile: templates escape it, and no part of an
address becomes a path.
"""
