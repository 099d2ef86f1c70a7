"""Checkpoints in an S3 interface that fails: a save counts once it is there, and only then; each failure is named."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.checkpoints.store import CheckpointMissing, StoreUnavailable
from nodes.checkpoints.store_retries import PatientCheckpoints
from tests.integration.checkpoint_samples import NOISE, TEXT, key
from tests.integration.processes import until
from tests.integration.store_proxy import Fault, Refused, StoreProxy
from tests.integration.store_servers import KEYS, S3Server

SLOW_DOWN = Refused(503, "SlowDown")
PLENTY_MS = 60_000
SILENCE_MS = 400
"""After so much of it an answer is not waited for any more, in tests of silence alone."""


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[StoreProxy]:
    proxy = StoreProxy(s3_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    return s3_server.make_bucket(f"b{uuid.uuid4().hex}")


def opened(endpoint: str, bucket: str, timeout_ms: int = PLENTY_MS) -> ObjectCheckpoints:
    return ObjectCheckpoints(f"s3://{bucket}/holon", {**KEYS, "endpoint": endpoint}, timeout_ms=timeout_ms)


@pytest.fixture
def store(request: pytest.FixtureRequest, proxy: StoreProxy, bucket: str) -> ObjectCheckpoints:
    """Through the proxy; it waits long for an answer unless the test is one of silence."""
    fault = getattr(request.node, "callspec", None) and request.node.callspec.params.get("fault")
    silent = fault in (Fault.HANG, Fault.LOST_ANSWER)
    return opened(proxy.endpoint, bucket, SILENCE_MS if silent else PLENTY_MS)


@pytest.fixture
def direct(s3_server: S3Server, bucket: str) -> ObjectCheckpoints:
    """The same bucket without the proxy."""
    return opened(s3_server.endpoint, bucket)


def puts(proxy: StoreProxy) -> list[object]:
    return [fault for method, _, fault in proxy.seen if method == "PUT"]


@pytest.mark.parametrize(
    "fault",
    [
        SLOW_DOWN,
        Refused(500, "InternalError"),
        Refused(409, "ConditionalRequestConflict"),
        Fault.HANG,
        Fault.LOST_ANSWER,
        Fault.CUT_ANSWER,
    ],
    ids=str,
)
def test_a_save_that_meets_a_fault_once_is_there_once_in_the_end(
    store: ObjectCheckpoints, direct: ObjectCheckpoints, proxy: StoreProxy, fault: Fault | Refused
) -> None:
    proxy.once("PUT", fault)
    name = PatientCheckpoints(store, pauses_s=[0.0] * 3).save(key(), NOISE)
    assert puts(proxy)[0] == fault and len(puts(proxy)) > 1
    assert direct.blobs.names("q7/0/00003") == [name]
    assert direct.load(name) == NOISE


@pytest.mark.parametrize("fault", [SLOW_DOWN, Fault.HANG], ids=str)
def test_a_save_that_always_fails_is_an_error_that_names_the_store_and_leaves_nothing(
    store: ObjectCheckpoints, direct: ObjectCheckpoints, proxy: StoreProxy, bucket: str, fault: Fault | Refused
) -> None:
    proxy.always(fault)
    with pytest.raises(StoreUnavailable, match=f"s3://{bucket}/holon could not be written at q7/0/00003/.*check"):
        store.save(key(), TEXT)
    assert direct.list("q7", 0, 3) == []


def test_a_save_whose_answers_are_all_lost_is_an_error_and_yet_counts_when_it_is_asked_for_again(
    store: ObjectCheckpoints, direct: ObjectCheckpoints, proxy: StoreProxy
) -> None:
    proxy.always(Fault.LOST_ANSWER)
    with pytest.raises(StoreUnavailable):
        opened(proxy.endpoint, bucket_of(store), SILENCE_MS).save(key(), TEXT)
    until(lambda: bool(direct.list("q7", 0, 3)), "it is there")
    (name,) = direct.list("q7", 0, 3)
    proxy.heal()
    assert store.save(key(), TEXT) == name
    assert direct.list("q7", 0, 3) == [name]


def test_of_two_nodes_that_save_the_same_at_once_one_creates_it_and_both_have_it(
    store: ObjectCheckpoints, direct: ObjectCheckpoints, proxy: StoreProxy
) -> None:
    proxy.once("PUT", Fault.HELD)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(opened(proxy.endpoint, bucket_of(store)).save, key(), TEXT)
        until(lambda: bool(direct.list("q7", 0, 3)), "the first one's value is there, its answer held")
        second = store.save(key(), TEXT)
        proxy.released.set()
        assert first.result() == second
    assert direct.list("q7", 0, 3) == [second]


def bucket_of(store: ObjectCheckpoints) -> str:
    return store.blobs.where.split("/")[2]


def test_a_value_of_other_bytes_under_the_name_is_not_taken_for_the_own(
    store: ObjectCheckpoints, direct: ObjectCheckpoints
) -> None:
    name = direct.save(key(), TEXT)
    direct.blobs.delete(name)
    assert direct.blobs.create(name, b"torn")
    again = store.save(key(), TEXT)
    assert again != name and direct.load(again) == TEXT


@pytest.mark.parametrize(
    "fault", [SLOW_DOWN, Refused(403, "AccessDenied"), Fault.HANG, Fault.CUT_ANSWER, Fault.TORN_ANSWER], ids=str
)
def test_a_load_that_fails_is_no_missing_and_no_damaged_checkpoint(
    store: ObjectCheckpoints, direct: ObjectCheckpoints, proxy: StoreProxy, fault: Fault | Refused
) -> None:
    name = direct.save(key(), NOISE)
    proxy.always(fault)
    with pytest.raises(StoreUnavailable, match="could not be read"):
        store.load(name)
    with pytest.raises(StoreUnavailable, match="could not be listed"):
        store.list("q7", 0, 3)
    proxy.heal()
    assert PatientCheckpoints(store, pauses_s=[0.0]).load(name) == NOISE


def test_an_answer_that_is_torn_once_is_read_again(store: ObjectCheckpoints, proxy: StoreProxy) -> None:
    name = store.save(key(), NOISE)
    proxy.once("GET", Fault.TORN_ANSWER)
    assert PatientCheckpoints(store, pauses_s=[0.0]).load(name) == NOISE


def test_what_could_not_be_pruned_is_pruned_the_next_time(
    store: ObjectCheckpoints, direct: ObjectCheckpoints, proxy: StoreProxy
) -> None:
    names = [store.save(key(offset), TEXT) for offset in range(6)]
    proxy.always(SLOW_DOWN)
    assert PatientCheckpoints(store).prune("q7", 0, 3) == []
    proxy.heal()
    assert len(direct.list("q7", 0, 3)) == 6
    assert sorted(store.prune("q7", 0, 3)) == names[:3]
    assert direct.list("q7", 0, 3) == names[:2:-1]


def test_two_that_prune_at_once_do_not_mind_each_other(
    store: ObjectCheckpoints, direct: ObjectCheckpoints, proxy: StoreProxy
) -> None:
    names = [direct.save(key(offset), TEXT) for offset in range(6)]
    found = store.list("q7", 0, 3)
    direct.prune("q7", 0, 3)
    for name in found[3:]:
        store.blobs.delete(name)
    assert store.prune("q7", 0, 3) == [] and direct.list("q7", 0, 3) == names[:2:-1]


def test_a_missing_checkpoint_and_a_missing_bucket_are_told_apart(store: ObjectCheckpoints, proxy: StoreProxy) -> None:
    name = store.save(key(), TEXT)
    store.blobs.delete(name)
    with pytest.raises(CheckpointMissing):
        store.load(name)
    nowhere = opened(proxy.endpoint, "no-such-bucket")
    for ask in (lambda: nowhere.load(name), lambda: nowhere.save(key(), TEXT), lambda: nowhere.list("q7", 0, 3)):
        with pytest.raises(StoreUnavailable, match=r"there is no such bucket: make it, or mend checkpoints\.url"):
            ask()


def test_credentials_that_may_not_write_are_said_so(store: ObjectCheckpoints, proxy: StoreProxy) -> None:
    proxy.always(Refused(403, "AccessDenied"))
    with pytest.raises(StoreUnavailable, match="credentials the right to read and write"):
        store.save(key(), TEXT)


CLOUD_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")


@pytest.mark.parametrize(
    ("url", "variables", "advice"),
    [
        ("s3://bucket/x", {"AWS_METADATA_ENDPOINT": "http://127.0.0.1:9"}, "checkpoints.access_key_id"),
        ("gs://bucket/x", {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/key.json"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/x", {}, "AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_a_cloud_without_credentials_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], advice: str
) -> None:
    for name in [name for name in os.environ if name.startswith(CLOUD_VARIABLES)]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreUnavailable, match=advice):
        ObjectCheckpoints(url, timeout_ms=SILENCE_MS).save(key(), TEXT)
