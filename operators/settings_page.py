"""Generates docs/settings.md from the settings.

python -m airflow_dredge.operators.settings_page        writes the page; a test fails if it is outdated
"""

import sys
from pathlib import Path

from airflow_dredge.operators.icechunk import params as icechunk
from airflow_dredge.operators.kv import params as kv
from airflow_dredge.operators.lakefs import params as lakefs
from dredge.settings import table_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

_PAGE = """# Settings

This page is made from the code: `./run docs` writes it again.

Each setting is a Param of its DAG (in Airflow's form, in the `conf` of a trigger, in an entry of
`dredge_gc_schedules` or `dredge_icechunk_schedules`) and a key of its operator's `config`. Values may be text: `"25"`
is a number, `"True"` a yes.
Empty text and `None` mean no value where "or empty" is allowed, and the default where a number is; yes or no must be
said. An unknown name or a value that does not fit fails the first task, before anything is read; the message names
the setting, the nearest valid name and what is allowed. So does a `conf` whose values are not those of the Params, as
with `[core] dag_run_conf_overrides_params = False`. The Variable `dredge_policy` sets
[bounds for every run](approvals.md#bounds-for-every-run). Which connections the tasks use is no Param: another one
than `lakefs_default` or `aws_default` is an argument of the operators in a DAG of your own.

## lakeFS collection (`lakefs_gc`, `dredge gc run`)

`dredge gc run` has them as options: `--min-age-hours` for `min_age_hours`. It has `--apply` instead of `dry_run`,
`--read-kv` and the variable `DREDGE_KV_URL` instead of `kv_conn_id`, and no `spark_engine`.

{lakefs}

### Taking deletions back (`lakefs_gc_restore`, `dredge gc restore`)

{restore}

### Making them final (`lakefs_gc_purge`, `dredge gc purge`)

`dredge gc purge` has `--apply` instead of `dry_run`.

{purge}

### Range and metarange files (`lakefs_gc_metadata`, `dredge gc metadata`)

`dredge gc metadata` has `--apply` instead of `dry_run`, and the variable `DREDGE_KV_URL` instead of `kv_conn_id`.
Without `--note` and `--apply` it only reports.

{metadata}

## All lakeFS repositories (`lakefs_gc_all`, `dredge gc all`)

Beside the settings above but `repository`, which are those of each run:

{many}

## Icechunk expiration and collection (`icechunk_expiration`)

What both collectors have is named and means the same. lakeFS alone has what is about its server, its commits and its
slices; Icechunk alone has what an expiration asks, old repo infos and kinds to keep. Instead of
`spark_rows_min` it has `collect_mode`, and the sample that it looks for again is of one size, where lakeFS has
`verify_sample_size`.

{icechunk}

### Many Icechunk repositories (`icechunk_all`, `dredge icechunk all`)

Beside the settings above but `storage`, which are those of each run. `dredge icechunk all` has them as options, with
`--apply` instead of `dry_run` and without those of Spark:

{icechunk_many}

### Taking deletions of Icechunk collections back (`icechunk_restore`, `dredge icechunk restore`)

{icechunk_restore}

### Making them final (`icechunk_purge`, `dredge icechunk purge`)

`dredge icechunk purge` has `--apply` instead of `dry_run`.

{icechunk_purge}

## Trash of lakeFS's key-value store (`kv_trash_cleaner`)

{kv}

### Putting rows back (`kv_trash_restore`, `dredge trash restore`)

{kv_restore}
"""


def page() -> str:
    """Return the text of the page."""
    return _PAGE.format(
        lakefs=table_of(lakefs.FORM),
        many=table_of(lakefs.ALL_FORM[: len(lakefs.WHICH)]),
        restore=table_of(lakefs.RESTORE_FORM),
        purge=table_of(lakefs.PURGE_FORM),
        metadata=table_of(lakefs.METADATA_FORM),
        icechunk=table_of(icechunk.FORM),
        icechunk_many=table_of(icechunk.ALL_FORM[: len(icechunk.WHICH)]),
        icechunk_restore=table_of(icechunk.RESTORE_FORM),
        icechunk_purge=table_of(icechunk.PURGE_FORM),
        kv=table_of(kv.FORM),
        kv_restore=table_of(kv.RESTORE_FORM),
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE, file=sys.stderr)


if __name__ == "__main__":
    main()
