"""Azure Blob Storage."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage

STORE = "dredge/storage/azure"

AZURE = (
    Breakage(
        "a blob whose part of a batch has no answer counts as gone",
        f"{STORE}/deleting.py",
        'said.get(place) or DeleteOutcome(key, "failed", UNCLEAR, silent)',
        'said.get(place) or DeleteOutcome(key, "deleted")',
        ("test_what_no_answer_speaks_about_is_never_deleted",),
    ),
    Breakage(
        "a batch's answers are told by their order",
        f"{STORE}/deleting.py",
        "place = int(number[1])",
        "place = len(said)",
        ("test_answers_are_told_apart_by_id_and_not_by_order",),
    ),
    Breakage(
        "names that HTTP libraries rewrite are sent, so that another blob goes",
        f"{STORE}/names.py",
        "and _AMBIGUOUS.search(name) is None",
        "and True",
        ("test_names_reach_the_service_as_they_are",),
    ),
    Breakage(
        "a listing of a hierarchical account ends at the first name behind its bound",
        f"{STORE}/listing.py",
        "if flat and stop and page.rows.num_rows",
        "if stop and page.rows.num_rows",
        ("test_nothing_is_cut_off_where_the_order_is_not_that_of_names",),
    ),
    Breakage(
        "placeholders of directories are objects",
        f"{STORE}/listing.py",
        'found = [item for item in root.iterfind("Blobs/Blob") if not _is_folder(item)]',
        'found = [item for item in root.iterfind("Blobs/Blob")]',
        ("test_placeholders_of_directories_are_no_objects",),
    ),
    Breakage(
        "the two spellings of a namespace on Azure are two places",
        "dredge/storage/schemes.py",
        'if canonical != "https":',
        "if canonical:",
        ("test_two_spellings_of_one_namespace_overlap",),
    ),
    Breakage(
        "an identity's token goes to whatever host a namespace names",
        f"{STORE}/clients.py",
        "or not (named or host.endswith(_SERVICE))",
        "or not host",
        ("test_a_token_of_an_identity_goes_to_the_service_only",),
    ),
    Breakage(
        "a version that comes back writes over what was written since",
        f"{STORE}/copying.py",
        "return self.copy_to(key, key, if_absent=True, version=version)",
        "return self.copy_to(key, key, version=version)",
        ("test_what_was_written_since_a_deletion_is_not_written_over",),
    ),
    Breakage(
        "an account keeps versions whatever it answers",
        f"{STORE}/versions.py",
        'return "enabled" if answer.get("version_id") else "off"',
        'return "enabled"',
        ("test_whether_versions_are_kept_is_told_by_a_write_in_the_same_account_only",),
    ),
    Breakage(
        "versions of names that begin alike are the object's",
        f"{STORE}/versions.py",
        "if item.name != name:",
        "if False:",
        ("test_versions_of_a_name_are_told_whole_and_of_no_other",),
    ),
    Breakage(
        "of several versions that are like the run's one is purged",
        "dredge/undo/purge/choosing.py",
        'if row["version_id"] is None and sum(_is_of(item, row) for item in found) > 1:',
        "if False:",
        ("test_of_several_versions_that_are_alike_none_goes",),
    ),
    Breakage(
        "a deletion is as old as what it deleted",
        "dredge/undo/purge/choosing.py",
        'if max(marker.last_modified, row["done_by"]) >= self._cutoff:',
        "if marker.last_modified >= self._cutoff:",
        ("test_a_deletion_is_as_young_as_the_last_word_of_the_ledger",),
    ),
    Breakage(
        "what is archived goes",
        "dredge/gc/subtract/holds.py",
        'found = pc.is_in(rows["storage_class"], pa.array(HELD_CLASSES))',
        'found = pc.is_in(rows["storage_class"], pa.array(["none"]))',
        ("test_what_is_archived_is_held_and_counted_and_nothing_else_for_its_class",),
    ),
    Breakage(
        "metadata may say a blob's tier",
        f"{STORE}/listing.py",
        'plain = xml.count(_PLAIN_TIER) == xml.count(b"<AccessTier>") == count',
        "plain = xml.count(_PLAIN_TIER) == count",
        ("test_tiers_are_those_of_the_properties_whatever_metadata_say",),
    ),
)
