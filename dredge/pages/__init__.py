"""Dredge's web pages: results, progress and settings of runs. Pages only read.

    places.py        locations of runs: one place for each repository; facts from Airflow, answers from a lakeFS server
    history.py       the runs of a place, the report of a run, its progress; totals of places, the mode of the next run,
                     plans of Icechunk expirations; `trash.py`: runs of the trash cleaner
    objects.py       the candidates and the ledger of a run, a page of rows at a time; `object_rows.py` reads the rows
    restoring.py     the preview of a restore, and the settings for starting it
    drawing.py       the values of each page; `templates/` draw it, `static/` styles it
    web.py           addresses → pages; the accepted host names

`dredge ui` serves them alone; `plugins/dredge_pages.py` adds them to Airflow, with its permissions for reading and for
starting a restore. Text from a lake is untrusted: templates escape it, and no part of an address becomes a path.
"""
