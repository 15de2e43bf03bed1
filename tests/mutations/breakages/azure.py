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
)
