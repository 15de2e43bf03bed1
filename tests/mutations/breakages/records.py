"""Guards of what is read from the key-value store instead of the server."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Operator, Put, Rename, Swap

_KEPT = ("test_what_only_this_keeps_is_kept_by_the_records_alone",)


RECORDS = (
    Breakage(
        "a PostgreSQL URL that can be divided in two ways is taken",
        "dredge.kv.urls",
        "check_postgres_url",
        Put("If", 1, False),
        ("test_a_url_that_cannot_be_read_is_bad_input_and_is_not_repeated",),
    ),
    Breakage(
        "values of the URL are told with the server's words",
        "dredge.kv.postgres",
        "PostgresStore._text",
        Put("IfExp", "_hidden", None),
        ("test_what_the_server_says_is_told_without_values_of_the_url",),
    ),
    Breakage(
        "a server's URL may have credentials",
        "dredge.connections",
        "check_server_url",
        Rename("Call", "fullmatch", "match"),
        ("test_a_server_that_is_not_plain_is_bad_input_and_is_not_repeated",),
    ),
    Breakage(
        "a reader's statement may write",
        "dredge.kv.postgres",
        "PostgresStore._transaction",
        Put("IfExp", "_read_only", None),
        ("test_a_reader_cannot_write_through_a_pooler_either",),
    ),
    Breakage(
        "statements that are sent often are prepared in the session",
        "dredge.kv.postgres",
        "PostgresStore.connect",
        Put("keyword", "prepare_threshold", 5),
        ("test_a_cleaner_and_a_server_leave_nothing_in_the_session",),
    ),
    Breakage(
        "a copy of the store stands for the server",
        "dredge.gc.mark_uncommitted.kv_store",
        "_Count.fits",
        Put("Return", "least", True),
        ("test_what_was_staged_since_a_copy_of_the_store_was_made_stays",),
    ),
    Breakage(
        "a store whose counter has gone another way stands for the server",
        "dredge.gc.mark_uncommitted.kv_store",
        "_Count.fits",
        Drop("Compare", 1, "comparators.1"),
        ("test_a_copy_on_which_another_server_works_does_not_stand_for_the_server",),
    ),
    Breakage(
        "a counter that stands still shows that the server writes to the store",
        "dredge.gc.mark_uncommitted.kv_store",
        "_have_written",
        Operator("Compare", "requests", "GtE"),
        ("test_where_nothing_shows_that_the_server_writes_there_it_is_asked",),
    ),
    Breakage(
        "the counter is read after other records",
        "dredge.gc.mark_uncommitted.kv_store",
        "read_checked",
        Swap("Expr", 2, 2),
        ("test_the_counter_is_read_before_everything_else",),
    ),
    Breakage(
        "the records are read from a store whose counter is lower",
        "dredge.gc.mark_uncommitted.kv_store",
        "_not_lower",
        Put("Call", "_Count", 0, "args.0"),
        ("test_records_of_a_store_that_has_counted_less_do_not_stand_for_the_server",),
    ),
    Breakage(
        "the server is asked for its count only after everything was read",
        "dredge.gc.mark_uncommitted.kv_store",
        "_count",
        Put("Call", "_Count", 1000000, "args.2"),
        ("test_a_copy_that_counts_along_with_a_busy_server_does_not_stand_for_it",),
    ),
    Breakage(
        "a store is looked at once",
        "dredge.gc.mark_uncommitted.kv_store",
        "read_checked",
        Drop("Expr", 3),
        ("test_a_copy_that_stands_still_at_the_servers_count_is_found_out_afterwards",),
    ),
    Breakage(
        "staged entries of a newer server are like any",
        "dredge.gc.mark_uncommitted.kv_store",
        "RepositoryRecords._note_unknown",
        Put("If", 1, False),
        ("test_an_entry_that_a_newer_server_staged_does_not_stand_for_the_server",),
    ),
    Breakage(
        "records of newer servers are exact",
        "dredge.gc.mark_uncommitted.staging",
        "Records.exact",
        Put("UnaryOp", "partial", True),
        ("test_what_a_newer_server_keeps_elsewhere_than_in_known_records_stays",),
    ),
    Breakage(
        "records of newer servers stand for the server",
        "dredge.gc.mark_uncommitted.kv_store",
        "_judge",
        Put("If", "unknown", False),
        ("test_a_record_that_a_newer_server_wrote_does_not_stand_for_the_server",),
    ),
    Breakage(
        "what is doubtful is everything",
        "dredge.gc.mark_uncommitted.staging",
        "_read_records_alone",
        Put("If", "doubt", False),
        ("test_what_was_staged_since_a_copy_of_the_store_was_made_stays",),
    ),
    Breakage(
        "what is refuted is exact",
        "dredge.gc.mark_uncommitted.staging",
        "Records.exact",
        Put("UnaryOp", "refuted", True),
        ("test_the_same_bytes_uploaded_again_since_a_copy_was_made_stay",),
    ),
    Breakage(
        "sealed tokens are left out of the records",
        "dredge.gc.mark_uncommitted.staging",
        "_read",
        Put("comprehension", 3, (), "iter"),
        _KEPT,
    ),
    Breakage(
        "dangling commits are left out of the records",
        "dredge.gc.list_committed.history",
        "_from_records",
        Drop("AugAssign", "active"),
        _KEPT,
    ),
    Breakage(
        "commits are read before branches",
        "dredge.gc.mark_uncommitted.kv_store",
        "RecordedCommits.__init__",
        Swap("Assign", "branches", 2),
        ("test_a_commit_made_between_the_reads_of_branches_and_commits_stops_nothing_and_loses_nothing",),
    ),
    Breakage(
        "a store without snapshots is read like one with",
        "dredge.gc.mark_uncommitted.staging",
        "_read",
        Put("If", "consistent", True),
        ("test_an_entry_that_moves_to_a_new_token_while_tokens_are_read_is_found",),
    ),
    Breakage(
        "copies that share their bytes are left out of the records",
        "dredge.gc.mark_uncommitted.staging",
        "_read",
        Drop("AugAssign", 3),
        ("test_a_copy_that_is_renamed_while_the_records_are_read_stays",),
    ),
    Breakage(
        "reads of PostgreSQL are not of one moment",
        "dredge.kv.postgres_rows",
        "PostgresRows.view",
        Rename("Attribute", "REPEATABLE_READ", "READ_COMMITTED"),
        ("test_a_view_is_one_moment_whatever_is_written_meanwhile",),
    ),
    Breakage(
        "reads of SQLite are not of one moment",
        "dredge.kv.sqlite",
        "SQLiteRows.view",
        Drop("Expr", "execute"),
        ("test_a_view_is_one_moment_whatever_is_written_meanwhile",),
    ),
)
