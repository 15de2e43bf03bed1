"""URIs and options of Azure: which account, which container, and who is told which secret."""

import pytest

from dredge.errors import ConfigError
from dredge.gc.namespaces import overlaps
from dredge.lakefs.files.addresses import AddressType, canonical_address
from dredge.storage import StorageOptions
from dredge.storage.azure.clients import credential_of, endpoint_of
from dredge.storage.location import Container, container_of, parse_uri
from dredge.storage.options import AzureOptions

KEY = "c2VjcmV0LWtleQ=="
SAS = "sv=2026-02-06&sig=very%2Fsecret%3D"


@pytest.mark.parametrize(
    ("uri", "account", "container", "root", "canonical"),
    [
        ("https://a.blob.core.windows.net/c/p", "a", "c", "p", "https://a.blob.core.windows.net/c/p"),
        ("https://A.Blob.core.windows.net/c", "a", "c", "", "https://a.blob.core.windows.net/c"),
        (
            "https://a.blob.core.chinacloudapi.cn/c/p/",
            "a",
            "c",
            "p",
            "https://a.blob.core.chinacloudapi.cn/c/p",
        ),
        (
            "https://a.blob.core.usgovcloudapi.net/c/p",
            "a",
            "c",
            "p",
            "https://a.blob.core.usgovcloudapi.net/c/p",
        ),
        ("https://a.blob.core.windows.net/c/p//q%20r?x#y", "a", "c", "p//q%20r?x#y", None),
        ("abfss://c@a.dfs.core.windows.net/p", "a", "c", "p", "https://a.blob.core.windows.net/c/p"),
        ("abfs://c@a.dfs.core.windows.net/p", "a", "c", "p", "https://a.blob.core.windows.net/c/p"),
        ("wasbs://c@a.blob.core.windows.net/p", "a", "c", "p", "https://a.blob.core.windows.net/c/p"),
        ("https://a.dfs.core.windows.net/c/p", "a", "c", "p", "https://a.blob.core.windows.net/c/p"),
        ("http://127.0.0.1:10000/a/c/p", "a", "c", "p", "http://127.0.0.1:10000/a/c/p"),
        ("http://localhost:10000/a/c/p", "a", "c", "p", "http://localhost:10000/a/c/p"),
        ("http://azurite/a/c", "a", "c", "", "http://azurite/a/c"),
        ("https://a.azurite.test/c/p", "a", "c", "p", "https://a.azurite.test/c/p"),
        ("az://c/p", "mine", "c", "p", "https://mine.blob.core.windows.net/c/p"),
    ],
)
def test_every_spelling_of_a_place_is_understood(
    uri: str, account: str, container: str, root: str, canonical: str | None
) -> None:
    found = parse_uri(uri, StorageOptions(azure=AzureOptions(account="mine")))
    assert (found.driver, found.root, found.uri) == ("azure", root, canonical or uri)
    there = container_of(found.bucket)
    assert (there.account, there.name, there.url) == (account, container, found.bucket)


@pytest.mark.parametrize(
    "uri",
    [
        "https://a.blob.core.windows.net",
        "https://a.blob.core.windows.net/",
        "http://127.0.0.1:10000/a",
        "https://user:word@a.blob.core.windows.net/c",
        f"https://a.blob.core.windows.net/c/p?{SAS}",
        "abfss://a.dfs.core.windows.net",
        "az://c/p",
    ],
)
def test_what_names_no_container_or_carries_a_secret_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_uri(uri, StorageOptions())
    assert "secret" not in str(caught.value)
    assert "word" not in str(caught.value)


def test_two_spellings_of_one_namespace_overlap() -> None:
    one, other = "https://a.blob.core.windows.net/c/lake", "abfss://c@a.dfs.core.windows.net/lake/inner"
    assert overlaps({"one": one, "other": other}) == [("one", "other", "contains")]
    assert overlaps({"one": one, "other": "abfss://d@a.dfs.core.windows.net/lake"}) == []


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("https://a.blob.core.windows.net/c/lake/data/x", "data/x"),
        ("https://A.blob.core.windows.net/c/lake/data/X", "data/X"),
        ("abfss://c@a.dfs.core.windows.net/lake/data/x", "data/x"),
        ("https://a.blob.core.windows.net/c/lake/data/x?sv=1&sig=z", "data/x"),
        ("https://a.blob.core.windows.net/c/lake2/data/x", None),
        ("https://a.blob.core.windows.net/d/lake/data/x", None),
        ("https://b.blob.core.windows.net/c/lake/data/x", None),
    ],
)
def test_full_addresses_are_told_inside_from_outside(address: str, key: str | None) -> None:
    namespace = "https://a.blob.core.windows.net/c/lake"
    assert canonical_address(address, AddressType.FULL, namespace) == key


@pytest.mark.parametrize(
    "told",
    [
        AzureOptions("a", None, SAS),
        AzureOptions("a", KEY),
        AzureOptions("a", KEY, None, None, "tenant", "client", "secret"),
        AzureOptions("b"),
    ],
)
def test_what_is_told_of_an_account_is_not_mixed_with_a_machines_own(told: AzureOptions) -> None:
    own = {
        "AZURE_STORAGE_ACCOUNT": "own",
        "AZURE_STORAGE_KEY": KEY,
        "AZURE_STORAGE_SAS_TOKEN": SAS,
        "AZURE_STORAGE_ENDPOINT": "https://own.example.net",
        "AZURE_STORAGE_CONNECTION_STRING": f"AccountName=own;AccountKey={KEY}",
    }
    assert AzureOptions.from_env(own | told.to_env()) == told
    assert AzureOptions.from_env(own | AzureOptions(client_id="c").to_env()).account == "own"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn",
         AzureOptions("a", KEY, None, "https://a.blob.core.chinacloudapi.cn")),
        (f"AccountName=a;AccountKey={KEY}", AzureOptions("a", KEY)),
        (f"AccountName=a;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:1/a/;", AzureOptions("a", KEY, None, "http://127.0.0.1:1/a")),
        (f"BlobEndpoint=https://a.blob.core.windows.net/;SharedAccessSignature={SAS}",
         AzureOptions("a", None, SAS, "https://a.blob.core.windows.net")),
    ],
)  # fmt: skip
def test_connection_strings_are_read(text: str, found: AzureOptions) -> None:
    assert AzureOptions.from_env({"AZURE_STORAGE_CONNECTION_STRING": text}) == found


@pytest.mark.parametrize(
    "environ",
    [
        {"AZURE_STORAGE_KEY": KEY},
        {"AZURE_STORAGE_SAS_TOKEN": SAS},
        {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_ENDPOINT": f"https://a.example.net?{SAS}"},
        {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_ENDPOINT": "https://u:secret@a.example.net"},
        {"AZURE_CLIENT_SECRET": "secret"},
        {"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"},
        {"AZURE_STORAGE_CONNECTION_STRING": f"AccountKey={KEY}"},
    ],
)
def test_wrong_options_are_refused_without_repeating_them(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        AzureOptions.from_env(environ)
    assert all(secret not in str(caught.value) for secret in (KEY, SAS, "secret@"))


def test_a_key_is_used_for_its_own_account_only() -> None:
    options = AzureOptions("a", KEY, endpoint_url="https://private.example.net")
    own = Container("a", "c", "https://a.blob.core.windows.net")
    other = Container("b", "c", "https://b.blob.core.windows.net")
    assert credential_of(own, options).named_key == ("a", KEY)
    assert not hasattr(credential_of(other, options), "named_key")
    assert endpoint_of(own, options) == "https://private.example.net"
    assert endpoint_of(other, options) == other.endpoint
    signed = AzureOptions("a", sas_token=SAS)
    assert credential_of(own, signed).signature == SAS
    assert not hasattr(credential_of(other, signed), "signature")


@pytest.mark.parametrize(
    "endpoint",
    ["https://a.evil.example", "http://a.blob.core.windows.net", "https://core.windows.net.evil.example"],
)
def test_a_token_of_an_identity_goes_to_the_service_only(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="Nothing was sent"):
        credential_of(Container("a", "c", endpoint), AzureOptions())
    if endpoint.startswith("https"):
        credential_of(Container("a", "c", endpoint), AzureOptions("a", endpoint_url=endpoint))
