"""Guards of what is read from the key-value store instead of the server."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

_STANDING = f"{GC}/mark_uncommitted/kv_standing.py"
_REPOSITORY = f"{GC}/mark_uncommitted/kv_repository.py"
_RECORDS = f"{GC}/mark_uncommitted/kv_records.py"
_SOURCES = f"{GC}/list_committed/sources.py"
_KEPT = ("test_what_only_this_keeps_is_kept_by_the_records_alone",)

_POSTGRES = "dredge/kv/postgres.py"

RECORDS = (
    Breakage(
        "a PostgreSQL URL that can be divided in two ways is taken",
        "dredge/kv/urls.py",
        "if _SCHEME.match(url) and not _POSTGRES_URL.fullmatch(url):",
        "if False:",
        ("test_a_url_that_cannot_be_read_is_bad_input_and_is_not_repeated",),
    ),
    Breakage(
        "values of the URL are told with the server's words",
        _POSTGRES,
        'return self._hidden.sub("***", text) if self._hidden is not None else text',
        "return text",
        ("test_what_the_server_says_is_told_without_values_of_the_url",),
    ),
    Breakage(
        "a server's URL may have credentials",
        "dredge/server_urls.py",
        r"https?://(?:\[[0-9a-f:.]+\]|[\w.-]+)",
        r"https?://(?:\[[0-9a-f:.]+\]|[\w.:@-]+)",
        ("test_a_server_that_is_not_plain_is_bad_input_and_is_not_repeated",),
    ),
    Breakage(
        "a reader leaves its session read-only",
        _POSTGRES,
        "connection.read_only = self._read_only or None",
        'connection.execute("SET default_transaction_read_only = on" if self._read_only else "SELECT 1")',
        ("test_lakefs_writes_after_a_look_through_the_same_pooler",),
    ),
    Breakage(
        "a reader's statement may write",
        _POSTGRES,
        "return connection.transaction() if self._read_only else contextlib.nullcontext()",
        "return contextlib.nullcontext()",
        ("test_a_reader_cannot_write_through_a_pooler_either",),
    ),
    Breakage(
        "statements that are sent often are prepared in the session",
        _POSTGRES,
        "prepare_threshold=None,",
        "prepare_threshold=5,",
        ("test_a_cleaner_and_a_server_leave_nothing_in_the_session",),
    ),
    Breakage(
        "the server's question is asked while the records are open",
        _STANDING,
        "        counts = [_count(run.client, written, _read_count(store, written))]",
        "        with store.view():\n            counts = [_count(run.client, written, _read_count(store, written))]",
        ("test_the_server_is_never_asked_while_a_view_is_open",),
    ),
    Breakage(
        "a copy of the store stands for the server",
        _STANDING,
        "return self.least <= self.found <= self.most",
        "return True",
        ("test_what_was_staged_since_a_copy_of_the_store_was_made_stays",),
    ),
    Breakage(
        "a store whose counter has gone another way stands for the server",
        _STANDING,
        "return self.least <= self.found <= self.most",
        "return self.least <= self.found",
        ("test_a_copy_on_which_another_server_works_does_not_stand_for_the_server",),
    ),
    Breakage(
        "a counter that stands still shows that the server writes to the store",
        _STANDING,
        "if found.requests > first.requests:",
        "if found.requests >= first.requests:",
        ("test_where_nothing_shows_that_the_server_writes_there_it_is_asked",),
    ),
    Breakage(
        "the counter is read after other records",
        _STANDING,
        "            counts.append(_not_lower(counts[0], written, view))\n"
        "            records = RepositoryRecords(run.plan, view, store.location)\n"
        "            found = read(records)\n",
        "            records = RepositoryRecords(run.plan, view, store.location)\n"
        "            found = read(records)\n"
        "            counts.append(_not_lower(counts[0], written, view))\n",
        ("test_the_counter_is_read_before_everything_else",),
    ),
    Breakage(
        "the records are read from a store whose counter is lower",
        _STANDING,
        "_Count(counted.found, found, max(counted.found, found))",
        "counted",
        ("test_records_of_a_store_that_has_counted_less_do_not_stand_for_the_server",),
    ),
    Breakage(
        "the server is asked for its count only after everything was read",
        _STANDING,
        "return _Count(written.requests, found, after.requests)",
        "return _Count(written.requests, found, after.requests + 1000)",
        ("test_a_copy_that_counts_along_with_a_busy_server_does_not_stand_for_it",),
    ),
    Breakage(
        "a store is looked at once",
        _STANDING,
        "counts.append(_count(run.client, again, _read_count(store, again)))",
        "pass",
        ("test_a_copy_that_stands_still_at_the_servers_count_is_found_out_afterwards",),
    ),
    Breakage(
        "a store that proves nothing proves the server's scan",
        f"{GC}/mark_uncommitted/staging.py",
        "            return staging\n        _scan_until_proved(run, staging, deadline)\n",
        "            return staging\n        staging.scan(run, deadline)\n        return staging\n",
        ("test_what_a_server_loses_from_its_scan_stays_though_a_copy_lacks_it_too",),
    ),
    Breakage(
        "staged entries of a newer server are like any",
        _REPOSITORY,
        "yield self._keys(self._note_unknown(messages.Entry, row.key, record.data, partition))",
        'yield self._keys(messages.decode(messages.Entry, record.data, ""))',
        ("test_an_entry_that_a_newer_server_staged_does_not_stand_for_the_server",),
    ),
    Breakage(
        "records of newer servers are exact",
        _RECORDS,
        " and not self.standing.partial",
        "",
        ("test_what_a_newer_server_keeps_elsewhere_than_in_known_records_stays",),
    ),
    Breakage(
        "records of newer servers stand for the server",
        _STANDING,
        "if records.unknown:",
        "if False:",
        ("test_a_record_that_a_newer_server_wrote_does_not_stand_for_the_server",),
    ),
    Breakage(
        "what is doubtful is everything",
        f"{GC}/mark_uncommitted/staging.py",
        "if records.standing.doubt:",
        "if False:",
        ("test_what_was_staged_since_a_copy_of_the_store_was_made_stays",),
    ),
    Breakage(
        "what is refuted is exact",
        _RECORDS,
        "return self.missing == 0 and not self.standing.refuted",
        "return self.missing == 0",
        ("test_the_same_bytes_uploaded_again_since_a_copy_was_made_stay",),
    ),
    Breakage(
        "hidden branches are left out of the records",
        _REPOSITORY,
        "            found.append(branch)\n        self.heads",
        "            found += [] if branch.hidden else [branch]\n        self.heads",
        _KEPT,
    ),
    Breakage(
        "tags are left out of the records",
        _REPOSITORY,
        "for name, value in self.rows(_TAGS):",
        "for name, value in list(self.rows(_TAGS))[:0]:",
        _KEPT,
    ),
    Breakage(
        "sealed tokens are left out of the records",
        _RECORDS,
        "for token in branch.tokens if token not in read",
        "for token in branch.tokens[:1] if token not in read",
        _KEPT,
    ),
    Breakage(
        "dangling commits are left out of the records",
        _SOURCES,
        "active |= active_by_rules(recorded.commits,",
        "active |= active_by_rules(graph,",
        _KEPT,
    ),
    Breakage(
        "commits are read before branches",
        _SOURCES,
        "        self.branches = [Ref(",
        "        early = records.commits()\n"
        "        records.commits = lambda: early\n"
        "        self.branches = [Ref(",
        ("test_a_commit_made_between_the_reads_of_branches_and_commits_stops_nothing_and_loses_nothing",),
    ),
    Breakage(
        "a store without snapshots is read like one with",
        _RECORDS,
        "if found.consistent:",
        "if True:",
        ("test_an_entry_that_moves_to_a_new_token_while_tokens_are_read_is_found",),
    ),
    Breakage(
        "copies that share their bytes are left out of the records",
        _RECORDS,
        "records.rows += sink.take(found.copies())",
        "pass",
        ("test_a_copy_that_is_renamed_while_the_records_are_read_stays",),
    ),
    Breakage(
        "without a scan nobody looks at the server's clock",
        f"{GC}/clocks.py",
        "seen += [] if staged.server_time is None else [staged.server_time]",
        "seen += []",
        ("test_without_a_scan_the_servers_clock_is_looked_at_all_the_same",),
    ),
    Breakage(
        "reads of PostgreSQL are not of one moment",
        "dredge/kv/postgres_rows.py",
        "IsolationLevel.REPEATABLE_READ",
        "IsolationLevel.READ_COMMITTED",
        ("test_a_view_is_one_moment_whatever_is_written_meanwhile",),
    ),
    Breakage(
        "reads of SQLite are not of one moment",
        "dredge/kv/sqlite_rows.py",
        'connection.execute("BEGIN")\n',
        "pass\n",
        ("test_a_view_is_one_moment_whatever_is_written_meanwhile",),
    ),
)
