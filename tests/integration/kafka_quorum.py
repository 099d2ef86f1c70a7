"""Three real brokers, and what an operator or an accident does to them."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import ElectionType, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from nodes.local_kafka import broker as kafka_broker
from nodes.log.kafka.direct.connection import Lost, Wire, leaders
from tests.integration.processes import PLENTY_S, ROOT, until

ALTER_REASSIGNMENTS, ALTER_QUOTAS = 45, 49
_TIMEOUT_MS = int(PLENTY_S * 1000)
_REQUEST_S = 5.0


def holon_kafka(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """`holon kafka ...` on the brokers of that folder: exit code and JSON."""
    command = [sys.executable, "-m", "nodes.cli", "kafka", *arguments, "--dir", str(folder), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    return done.returncode, msgspec.json.decode(done.stdout)


class Quorum:
    """The brokers of one folder, by their numbers from 1 on."""

    def __init__(self, folder: Path, brokers: int = 3) -> None:
        self.folder = folder
        code, said = holon_kafka(folder, "up", "--brokers", str(brokers))
        assert code == 0, said
        self.bootstrap: str = said["bootstrap"]
        self.numbers = range(1, brokers + 1)
        common = {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 200}
        self._admin = AdminClient(common)
        # By its default it would wait 60 s for a broker that stands still, and ask no other one meanwhile.
        self._looking = AdminClient({**common, "socket.timeout.ms": int(_REQUEST_S * 1000)})

    # --- what is so --------------------------------------------------------------------------------------------------

    def pid(self, number: int) -> int | None:
        """Of that broker's process; None if it does not run."""
        found = kafka_broker.status(self.folder)
        return None if found is None else found.members[number - 1].pid

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> broker that leads it, -1 if none does."""
        return {number: one.leader for number, one in self._partitions(topic).items()}

    def in_sync(self, topic: str) -> dict[int, list[int]]:
        """Partition -> brokers whose replicas are in sync."""
        return {number: sorted(one.isrs) for number, one in self._partitions(topic).items()}

    def _partitions(self, topic: str) -> dict[int, Any]:
        try:
            return self._looking.list_topics(topic, timeout=_REQUEST_S).topics[topic].partitions
        except KafkaException:
            return {}

    def await_all_in_sync(self, topic: str, replicas: Mapping[int, Sequence[int]] | None = None) -> None:
        """Until each replica of each partition is; with ``replicas`` until these are the replicas, in this order.

        One answer has to say all of it: the next may be that of a broker that knows less.
        """

        def in_sync() -> bool:
            found = self._partitions(topic)
            lie = {number: list(one.replicas) for number, one in found.items()}
            wanted = {} if replicas is None else {number: list(brokers) for number, brokers in replicas.items()}
            return (
                bool(found)
                and lie | wanted == lie
                and all(sorted(one.isrs) == sorted(one.replicas) for one in found.values())
            )

        until(in_sync, f"all replicas of {topic} are in sync{'' if replicas is None else f': {dict(replicas)}'}")

    def await_led_without(self, topic: str, number: int) -> None:
        """Until others lead each partition. That no broker has answered says nothing."""
        until(
            lambda: bool(found := self.leaders(topic)) and all(one not in (-1, number) for one in found.values()),
            f"others than {number} lead {topic}",
        )

    def _is_led_for(self, address: str, topic: str, partitions: int) -> bool:
        """Whether the broker of that address knows leaders of them all."""
        host, _, port = address.rpartition(":")
        wire = Wire.connect(host, int(port), "test", _REQUEST_S)
        if isinstance(wire, Lost):
            return False
        found = leaders(wire, topic)
        wire.close()
        return not isinstance(found, Lost) and [bool(one.host) for one in found.values()] == [True] * partitions

    # --- what an operator does ---------------------------------------------------------------------------------------

    def create(self, topic: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
        """A topic with these brokers for each partition, the preferred leader first; it leads, and all brokers know."""
        named = {name.replace("_", "."): value for name, value in config.items()}
        wish = NewTopic(topic, num_partitions=len(replicas), replica_assignment=[list(one) for one in replicas],
                        config={"message.timestamp.type": "LogAppendTime", **named})  # fmt: skip
        self._admin.create_topics([wish])[topic].result(PLENTY_S)
        for address in self.bootstrap.split(","):
            until(
                lambda address=address: self._is_led_for(address, topic, len(replicas)),
                f"{address} knows leaders of {topic}",
            )
        self.elect_preferred(topic, dict(enumerate(replicas)))

    def set(self, topic: str, name: str, value: str) -> None:
        """A property of a topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(PLENTY_S)

    def elect_preferred(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """A clean election: the first of its replicas, which are these, leads each partition from then on."""
        wanted = {number: brokers[0] for number, brokers in replicas.items()}
        places = [KafkaPartition(topic, number) for number in wanted]
        held = False

        def led() -> bool:
            """First by the controller's own word: brokers may still know the leaders of before the last ones."""
            nonlocal held
            with suppress(KafkaException, TimeoutError):  # the controller is being elected itself
                said = self._admin.elect_leaders(ElectionType.PREFERRED, places).result(PLENTY_S)
                held = held or all(map(_is_led, said.values()))
            return held and self.leaders(topic) == wanted

        until(led, f"the preferred replicas lead {topic}: {wanted}")

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Other brokers for these partitions; returns when the new ones have all and the old ones are gone."""
        rows = b"".join(
            struct.pack(">iB", number, len(brokers) + 1) + struct.pack(f">{len(brokers)}i", *brokers) + b"\0"
            for number, brokers in replicas.items()
        )
        name = topic.encode()
        body = struct.pack(">iBB", _TIMEOUT_MS, 2, len(name) + 1) + name + bytes([len(replicas) + 1]) + rows + b"\0\0"
        answer = ask_controller(self.bootstrap, ALTER_REASSIGNMENTS, b"\0" + body)
        assert answer[1 + 4 : 1 + 4 + 2] == b"\0\0", answer
        self.await_all_in_sync(topic, replicas)

    def throttle(self, client_id: str, bytes_per_s: float | None) -> None:
        """Quotas of a client at each broker, for writing and reading; None: as much as it likes."""
        throttle(self.bootstrap, client_id, bytes_per_s)

    # --- accidents ---------------------------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """`kill -9`."""
        pid = self.pid(number)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.pid(number) != pid, f"broker {number} is dead")

    def up(self) -> None:
        """Those that do not run run again."""
        code, said = holon_kafka(self.folder, "up")
        assert code == 0, said

    @contextmanager
    def stopped(self, number: int) -> Iterator[None]:
        """SIGSTOP within: its connections stay and nobody answers."""
        pid = self.pid(number)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def lasts(self, seconds: float) -> None:
        """The duration of a fault, which is the fault itself."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            time.sleep(0.05)


def _is_led(error: KafkaError | None) -> bool:
    """Whether the controller says of a partition that its preferred replica leads it."""
    return error is None or error.code() == KafkaError.ELECTION_NOT_NEEDED


def throttle(bootstrap: str, client_id: str, bytes_per_s: float | None) -> None:
    """As ``Quorum.throttle``, of any brokers."""
    ops = b"".join(
        struct.pack(">h", len(name)) + name + struct.pack(">d?", bytes_per_s or 0.0, bytes_per_s is None)
        for name in (b"producer_byte_rate", b"consumer_byte_rate")
    )
    kind, name = b"client-id", client_id.encode()
    entity = struct.pack(">ih", 1, len(kind)) + kind + struct.pack(">h", len(name)) + name
    answer = ask_controller(bootstrap, ALTER_QUOTAS, struct.pack(">i", 1) + entity + struct.pack(">i", 2) + ops + b"\0")
    _, rows, error = struct.unpack_from(">iih", answer)
    assert (rows, error) == (1, 0), answer


def ask_controller(bootstrap: str, api: int, body: bytes) -> bytes:
    """The answer of a broker, which passes it on to the controller. ``body`` begins behind the client's name."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), PLENTY_S) as connection:
        request = struct.pack(">hhih", api, 0, 1, 4) + b"test" + body
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answers:
            size, _ = struct.unpack(">ii", answers.read(8))
            return answers.read(size - 4)
