"""Guards of the owner of a namespace: its server, its id, and the block."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

C2 = "test_c2_production_ran_first_and_then_a_copy_of_its_database"
TAKEN_OVER = "test_a_copy_takes_the_namespace_over_before_a_run_of_production_goes_on"
SAME_URL = "test_a_copy_under_the_same_url_blocks_production_until_a_person_lifts_it"
KILLED = "test_after_a_kill_at_any_write_of_an_id_the_server_passes_and_a_copy_without_it_does_not"
NO_RIGHT = "test_without_the_right_a_run_that_deletes_needs_a_persons_consent_given_once"

OWNER = (
    Breakage(
        "every server is the owner",
        f"{GC}/witness/ownership.py",
        "return found.url in (self.environment.url, *self.aliases) and len(ids) < 2",
        "return True",
        (C2, "test_a_refused_copy_does_not_stop_production_and_production_is_warned_once"),
    ),
    Breakage(
        "another installation under the owner's URL is the owner",
        f"{GC}/witness/ownership.py",
        " and len(ids) < 2",
        "",
        ("test_a_refusal_of_another_installation_under_the_same_url_leaves_no_block",),
    ),
    Breakage(
        "a server without the last id passes",
        f"{GC}/witness/mark_id.py",
        "return self.find(value) is not None",
        "return True",
        (SAME_URL, C2),
    ),
    Breakage(
        "the id that the server has is not kept while a new one is written",
        f"{GC}/witness/mark_id.py",
        "last = ids.last if values is None else had",
        "last = ids.last",
        (KILLED,),
    ),
    Breakage(
        "an id counts as written although the server did not keep it",
        f"{GC}/witness/mark_id.py",
        "if values is None or values.get(KEY) == value:",
        "if True:",
        ("test_an_id_that_the_server_does_not_keep_is_an_error",),
    ),
    Breakage(
        "the owner is not looked at right before deleting",
        f"{GC}/bulk_delete/step.py",
        "    check_before_deleting(Site.of_run(run))\n",
        "",
        (TAKEN_OVER,),
    ),
    Breakage(
        "a blocked namespace is swept",
        f"{GC}/witness/block.py",
        "    if found is not None:\n        raise BlockedError",
        "    if False:\n        raise BlockedError",
        (SAME_URL, "test_a_blocked_namespace_is_not_purged"),
    ),
    Breakage(
        "a copy stops production",
        f"{GC}/witness/block.py",
        "if owner is not None and not owner.includes(environment):",
        "if False:",
        ("test_a_refusal_of_another_server_leaves_no_block",),
    ),
    Breakage(
        "a mark of another server leaves its commits and its id",
        f"{GC}/check_limits/step.py",
        "if claim_namespace(run) and",
        "if (claim_namespace(run) or True) and",
        ("test_a_dry_run_of_a_copy_goes_on_warns_and_leaves_nothing_that_counts",),
    ),
    Breakage(
        "production does not learn of another installation",
        f"{GC}/witness/owner.py",
        "if visitor.at < since:",
        "if True:",
        ("test_a_refused_copy_does_not_stop_production_and_production_is_warned_once",),
    ),
    Breakage(
        "without the right to keep an id nobody is asked",
        f"{GC}/witness/owner.py",
        "    if not has_consent(site, owner):\n",
        "    if False:\n",
        (NO_RIGHT,),
    ),
    Breakage(
        "a copy becomes another URL of the owner",
        f"{GC}/witness/people.py",
        "or compared.ids.find(compared.value) is None",
        "or False",
        ("test_a_copy_does_not_become_an_alias",),
    ),
    Breakage(
        "a block is lifted without a reason",
        "dredge/runs/consents.py",
        "    if not why.strip():\n",
        "    if False:\n",
        ("test_a_block_is_not_lifted_without_a_reason", "test_a_block_is_lifted_by_the_owner_with_a_reason"),
    ),
    Breakage(
        "a copy purges what production may need",
        "dredge/undo/purge/step.py",
        "        collected.check(run.plan.run_id)\n",
        "        pass\n",
        ("test_a_copy_purges_nothing",),
    ),
    Breakage(
        "metadata goes in a blocked namespace",
        f"{GC}/metadata/collecting.py",
        "        check_before_deleting(site)\n",
        "",
        ("test_in_a_blocked_namespace_no_metadata_goes",),
    ),
)
