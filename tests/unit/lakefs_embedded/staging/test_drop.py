from __future__ import annotations

from tests.support.lakes import Lake, make_lake


def queue_by_hand(lake: Lake, token: str) -> None:
    lake.kv.set(b"cleanup-tokens", token.encode(), b"stub-value")


def test_a_queued_token_that_a_branch_names_is_kept() -> None:
    """A real server deletes uncommitted data here: a reset whose answer was lost can queue a token in use."""
    lake = make_lake()
    lake.upload("sealed")
    lake.catalog.staging.protocol.seal(lake.catalog.repositories.get_repository(lake.repository), "main")
    lake.upload("current")
    for token in lake.tokens():
        queue_by_hand(lake, token)
    lake.catalog.resume()
    assert lake.paths() == ["current", "sealed"]
    assert lake.rows("cleanup-tokens") == []


def test_names_with_dashes_do_not_hide_a_reference() -> None:
    """`a-b` + `c` and `a` + `b-c` make the same token text; only branch records tell whose it is."""
    short = make_lake(repository="abc")
    short.catalog.branches.create_branch("abc", "de-f", "main")
    short.upload("x", branch="de-f")
    twin = make_lake(repository="abc-de", kv=short.kv)
    twin.catalog.branches.create_branch("abc-de", "f", "main")
    twin.upload("y", branch="f")
    for lake, branch in ((short, "de-f"), (twin, "f")):
        (token,) = lake.tokens(branch)
        assert token.startswith("abc-de-f:")
        queue_by_hand(lake, token)
    twin.catalog.resume()
    assert short.paths("de-f") == ["x"]
    assert twin.paths("f") == ["y"]
