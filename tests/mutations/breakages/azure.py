"""Azure Blob Storage."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Keep, Put

AZURE = (
    Breakage("a blob whose part of a batch has no answer counts as gone", "dredge.storage.azure.deleting",
             "read_answers", Put("Call", "DeleteOutcome", "deleted", "args.1"),
             ("test_what_no_answer_speaks_about_is_never_deleted",)),
    Breakage("a batch's answers are told by their order", "dredge.storage.azure.deleting", "read_answers",
             Put("Assign", "place", 0), ("test_answers_are_told_apart_by_id_and_not_by_order",)),
    Breakage("names that HTTP libraries rewrite are sent, so that another blob goes", "dredge.storage.keys",
             "is_exact", Put("Compare", "search", True), ("test_names_reach_the_service_as_they_are",)),
    Breakage("a listing of a hierarchical account ends at the first name behind its bound",
             "dredge.storage.azure.store", "_in_byte_order", Put("Name", 24, True),
             ("test_nothing_is_cut_off_where_the_order_is_not_that_of_names",)),
    Breakage("placeholders of directories are objects", "dredge.storage.azure.store", "_by_the_book",
             Put("UnaryOp", "_is_folder", True), ("test_placeholders_of_directories_are_no_objects",)),
    Breakage("the two spellings of a namespace on Azure are two places", "dredge.storage.schemes",
             "canonical_parts", Keep("Compare", "canonical", "left"),
             ("test_two_spellings_of_one_namespace_overlap",)),
    Breakage("an identity's token goes to whatever host a namespace names", "dredge.storage.azure.clients",
             "credential_of", Put("UnaryOp", 1, False),
             ("test_a_token_of_an_identity_goes_to_the_service_only",)),
    Breakage("a version that comes back writes over what was written since", "dredge.storage.azure.deleting",
             "AzureCopier.copy_version", Drop("keyword", "if_absent"),
             ("test_what_was_written_since_a_deletion_is_not_written_over",)),
    Breakage("an account keeps versions whatever it answers", "dredge.storage.azure.deleting",
             "AzureVersions.versioning", Put("IfExp", "get", True),
             ("test_whether_versions_are_kept_is_told_by_a_write_in_the_same_account_only",)),
    Breakage("versions of names that begin alike are the object's", "dredge.storage.azure.deleting",
             "AzureVersions._of_name", Put("If", "name", False),
             ("test_versions_of_a_name_are_told_whole_and_of_no_other",)),
    Breakage("of several versions that are like the run's one is purged", "dredge.undo.leftovers",
             "Choosing._version", Put("If", 2, False),
             ("test_of_several_versions_that_are_alike_none_goes",)),
    Breakage("a deletion is as old as what it deleted", "dredge.undo.leftovers", "Choosing._version",
             Keep("Call", "max", "args.0"), ("test_a_deletion_is_as_young_as_the_last_word_of_the_ledger",)),
    Breakage("what is archived goes", "dredge.gc.subtract.candidates", "archived",
             Put("Name", "HELD_CLASSES", ["none"]),
             ("test_what_is_archived_is_held_and_counted_and_nothing_else_for_its_class",)),
    Breakage("metadata may say a blob's tier", "dredge.storage.azure.store", "parse_page",
             Drop("Compare", 4, "comparators.0"),
             ("test_tiers_are_those_of_the_properties_whatever_metadata_say",)),
)  # fmt: skip
