"""Addresses come to one form, and whatever may be meant by one is kept."""

import itertools

import pytest

from dredge.errors import FormatError
from dredge.lakefs.files.addresses import address_readings, canonical_address, is_parsed_by_server, reworded

NS = "s3://lake/repo"


@pytest.mark.parametrize("namespace", [NS, NS + "/", "s3a://lake/repo", "S3N://lake/repo/"])
@pytest.mark.parametrize(
    ("address", "address_type", "expected"),
    [
        ("data/x/y", 1, "data/x/y"),
        ("data/x,sig", 1, "data/x,sig"),
        ("data//x/../%2F +?#/", 1, "data//x/../%2F +?#/"),
        ("s3://lake/repo/data/x", 1, "s3://lake/repo/data/x"),
        ("s3://lake/repo/data/x", 2, "data/x"),
        ("s3a://lake/repo/data/x", 2, "data/x"),
        ("s3://lake/repo2/data/x", 2, None),
        ("s3://lake/repo", 2, None),
        ("s3://lake/repo/", 2, None),
        ("s3://other/repo/data/x", 2, None),
        ("gs://lake/repo/data/x", 2, None),
        ("s3://me:1@lake/repo/data/x", 2, "data/x"),
        ("data/x", 2, None),
        ("63a9f0ea7bb98050796b649e85481845", 0, "63a9f0ea7bb98050796b649e85481845"),
        ("data/old/relative", 0, "data/old/relative"),
        ("a:b/c", 0, "a:b/c"),
        ("s3://lake/repo/old", 0, "old"),
        ("s3://lake/other/old", 0, None),
    ],
)  # fmt: skip
def test_the_canonical_form(namespace: str, address: str, address_type: int, expected: str | None) -> None:
    assert canonical_address(address, address_type, namespace) == expected


def test_the_host_of_a_full_address_on_azure_names_its_account_and_no_more() -> None:
    namespace = "https://acc.blob.core.windows.net/c/r"
    for inside in (
        "acc.blob.core.windows.net",
        "ACC.z1.blob.storage.azure.net/",
        "me@acc.dfs.core.windows.net:443",
    ):
        assert canonical_address(f"https://{inside}/c/r/data/x", 2, namespace) == "data/x"
    for outside in ("bcc.blob.core.windows.net/c", "acc.blob.core.windows.net/d"):
        assert canonical_address(f"https://{outside}/r/data/x", 2, namespace) is None
    emulator = "http://127.0.0.1:10000/acc/c/r"
    assert canonical_address(f"{emulator}/data/x", 2, emulator) == "data/x"
    assert canonical_address("http://127.0.0.1:10001/acc/c/r/data/x", 2, emulator) is None


@pytest.mark.parametrize(
    ("address", "server", "also"),
    [
        ("s3://lake/repo/data/pct%20x", "data/pct x", {"data/pct%20x"}),
        ("s3://lake/repo/data/slash%2Fx", "data/slash%2Fx", {"data/slash/x"}),
        ("s3://lake/repo/data/q?x=1", "data/q", {"data/q?x=1"}),
        ("s3://lake/repo/data/f#x", "data/f", {"data/f#x"}),
        ("s3://lake/repo/data/dir/", "data/dir/", {"data/dir"}),
        ("s3://lake/repo/data/a%20dir/", "data/a dir/", {"data/a%20dir/", "data/a dir"}),
        ("s3://lake/repo/data/q/?x=1", "data/q/", {"data/q/?x=1", "data/q"}),
        ("s3://lake//repo/data/x", "data/x", set()),
        ("s3://lake//repo/data/pct%20x", "data/pct x", {"data/pct%20x"}),
        ("s3://lake/repo/data/bad%zz", "data/bad%zz", set()),
        ("s3://lake/repo/data/plain", "data/plain", set()),
    ],
)
def test_what_a_full_address_may_mean_is_all_named_the_servers_reading_first(
    address: str, server: str, also: set[str]
) -> None:
    assert canonical_address(address, 2, NS) == server
    assert set(address_readings(address, 2, NS)) == {server, *also}
    assert address_readings(address, 2, NS)[0] == server


def test_on_azure_the_server_decodes_all_and_trims() -> None:
    namespace = "https://acc.blob.core.windows.net/c/r"
    found = address_readings(f"{namespace}/data/a%2Fb/", 2, namespace)
    assert found[0] == "data/a/b"
    assert set(found) == {"data/a/b", "data/a/b/", "data/a%2Fb", "data/a%2Fb/"}


def test_a_namespace_that_begins_with_a_slash() -> None:
    for namespace, address in itertools.permutations(("s3://b/repo", "s3://b//repo")):
        assert address_readings(f"{address}/data/x", 2, namespace) == ("data/x",)


def test_type_0_with_a_scheme_keeps_its_literal_reading_too() -> None:
    assert set(address_readings("s3://lake/repo/old", 0, NS)) == {"old", "s3://lake/repo/old"}
    assert address_readings("s3a://lake/repo/old", 0, NS)[0] == "s3a://lake/repo/old"
    assert "old" in address_readings("s3a://lake/repo/old", 0, NS)


def test_a_namespace_with_escapes_matches_in_both_forms() -> None:
    assert "data/x" in address_readings("s3://lake/a%20b/data/x", 2, "s3://lake/a b")
    assert "data/x" in address_readings("s3://lake/a%20b/data/x", 2, "s3://lake/a%20b")


def test_local_namespaces() -> None:
    assert canonical_address("local://lake/repo/data/x", 2, "local://lake/repo") == "data/x"
    assert canonical_address("file:///srv/lake/data/x", 2, "file:///srv/lake") == "data/x"


@pytest.mark.parametrize("namespace", ["local://lake", "local://lake/"])
@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ("local:///srv/lake/data/x", {"data/x"}),
        ("local:///srv/a%20folder/lake/data/x%2Fy", {"data/x%2Fy", "data/x/y"}),
        ("local:///lake/lake/data/x", {"lake/data/x", "data/x"}),
        ("local:///srv/lake2/data/x", set()),
        ("local:///srv/lake", set()),
        ("local://other/lake/data/x", set()),
        ("s3:///srv/lake/data/x", set()),
        ("local://lake/data/x", {"data/x"}),
    ],
)
def test_whole_paths_of_a_server_on_a_local_folder_lie_in_the_namespace_that_is_only_a_name(
    namespace: str, address: str, keys: set[str]
) -> None:
    assert set(address_readings(address, 2, namespace)) == keys


def test_an_unknown_type_is_an_error_never_a_guess() -> None:
    with pytest.raises(FormatError, match="unknown type 3"):
        canonical_address("data/x", 3, NS)


@pytest.mark.parametrize(
    ("address", "answer"),
    [
        ("s3://b/ns/data/plain", "s3://b/ns/data/plain"),
        ("s3://b/ns/data/pct%20x", "s3://b/ns/data/pct x"),
        ("s3://b/ns/data/q?x=1", "s3://b/ns/data/q"),
        ("s3://b/ns/data/f#x", "s3://b/ns/data/f"),
        ("s3://b/ns/data/a%2Fb", "s3://b/ns/data/a%2Fb"),
        ("s3://b/ns/data/bad%zz", "s3://b/ns/data/bad%zz"),
        ("s3://b/ns/data/a%20dir/", "s3://b/ns/data/a dir/"),
        ("s3://me@b/ns/data/x", "s3://b/ns/data/x"),
    ],
)
def test_an_answer_words_a_full_address_as_it_was_parsed(address: str, answer: str) -> None:
    assert reworded(address) == answer


def test_what_a_server_cannot_parse() -> None:
    assert is_parsed_by_server("s3://b/a%20b")
    assert is_parsed_by_server("/path")
    for address in ("plain", "s3://b/%zz", "s3://b/\x01", ""):
        assert not is_parsed_by_server(address)
