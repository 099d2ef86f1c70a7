"""The view of results in Redis: how its keys are laid out, and the one script that changes them.

Two rules for this file. Results and the position after them change in one step, or not at all. The view keeps the rules
of ``nodes/results/view.py``, for any order and number of writers.

Keys, all with the topic as hash tag (BASE is ``PREFIX:view:{TOPIC}``):

| key | type | content |
|---|---|---|
| ``BASE`` | hash | ``position`` (JSON) and ``token`` of the follower, ``floor:JOB``: newest window end dropped |
| ``BASE:jobs`` | hash | job -> its newest incarnation |
| ``BASE:windows:JOB`` | sorted set | window ends in ms, as members and as scores |
| ``BASE:window:JOB:END`` | hash | field -> payload |
| ``BASE:order:JOB:END`` | hash | field -> ``N/PARTITION`` of the identity that the payload comes from |
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from nodes.redis_connection import RedisServer
from nodes.results.view import ViewResult, WindowResults

# ARGV: expected token, new token, position, windows to keep, then seven a result.
_WRITE = """
local base = KEYS[1]
if (redis.call('HGET', base, 'token') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', base, 'token', ARGV[2], 'position', ARGV[3])
local keep, touched = tonumber(ARGV[4]), {}
local function drop(job, last)
  local ends = redis.call('ZRANGE', base .. ':windows:' .. job, 0, last)
  for _, stop in ipairs(ends) do
    redis.call('DEL', base .. ':window:' .. job .. ':' .. stop, base .. ':order:' .. job .. ':' .. stop)
    redis.call('ZREM', base .. ':windows:' .. job, stop)
  end
  return ends[#ends]
end
for i = 5, #ARGV, 7 do
  local job, incarnation, stop = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local field, n, partition, value = ARGV[i + 3], tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), ARGV[i + 6]
  local current = tonumber(redis.call('HGET', base .. ':jobs', job) or '-1')
  if incarnation > current then
    drop(job, -1)
    redis.call('HDEL', base, 'floor:' .. job)
    redis.call('HSET', base .. ':jobs', job, incarnation)
    current = incarnation
  end
  local floor = tonumber(redis.call('HGET', base, 'floor:' .. job) or '-inf')
  if incarnation == current and tonumber(stop) > floor then
    local order = base .. ':order:' .. job .. ':' .. stop
    local known = redis.call('HGET', order, field)
    local known_n, known_partition = -1, -1
    if known then
      local a, b = string.match(known, '^(%d+)/(%d+)$')
      known_n, known_partition = tonumber(a), tonumber(b)
    end
    if n > known_n or (n == known_n and partition > known_partition) then
      redis.call('HSET', base .. ':window:' .. job .. ':' .. stop, field, value)
      redis.call('HSET', order, field, ARGV[i + 4] .. '/' .. ARGV[i + 5])
      redis.call('ZADD', base .. ':windows:' .. job, stop, stop)
      touched[job] = true
    end
  end
end
for job in pairs(touched) do
  local extra = redis.call('ZCARD', base .. ':windows:' .. job) - keep
  if extra > 0 then redis.call('HSET', base, 'floor:' .. job, drop(job, extra - 1)) end
end
return 1
"""


class ViewPosition(NamedTuple):
    """The view's position: the reader's one (None: at the start), and the token that the next write names."""

    position: dict[str, Any] | None
    token: str


class RedisView:
    """The view of one output topic. Every method may raise ``RedisUnavailable``."""

    def __init__(self, server: RedisServer, topic: str) -> None:
        self.where = server.where
        self._server = server
        self._client = server.client
        self.base = f"{server.prefix}:view:{{{topic}}}"
        self._write = self._client.register_script(_WRITE)

    def mark(self) -> ViewPosition:
        """Where a follower has to go on."""
        token, position = self._server.call("read", lambda: self._client.hmget(self.base, "token", "position"))
        if token is None or position is None:
            return ViewPosition(None, "")
        return ViewPosition(json.loads(position), token.decode())

    def write(
        self, results: Sequence[ViewResult], position: dict[str, Any], token: str, keep_windows: int
    ) -> str | None:
        """Take the results in and move the position; the next token.

        None, with nothing changed, if the view is not at ``token``: another follower moved it, an earlier write of this
        one succeeded without an answer, or Redis lost data.
        """
        following = uuid.uuid4().hex
        arguments: list[Any] = [token, following, json.dumps(position), keep_windows]
        for r in results:
            arguments += [r.job, r.incarnation, r.end_ms, r.field, r.n, r.partition, r.value]
        done = self._server.call("written", lambda: self._write(keys=[self.base], args=arguments))
        return following if done else None

    def newest(self, count: int) -> list[WindowResults]:
        """As ``WindowTable.newest``."""
        return self._server.call("read", lambda: self._newest(count))

    def _newest(self, count: int) -> list[WindowResults]:
        jobs = {job.decode(): int(number) for job, number in self._client.hgetall(f"{self.base}:jobs").items()}
        found = []
        for job, incarnation in sorted(jobs.items()):
            ends = [end.decode() for end in self._client.zrange(f"{self.base}:windows:{job}", -count, -1)]
            with self._client.pipeline(transaction=False) as several:
                for end in ends:
                    several.hgetall(f"{self.base}:window:{job}:{end}")
                windows = several.execute()
            found += [
                WindowResults(job, incarnation, int(end), dict(sorted(window.items())))
                for end, window in zip(ends, windows, strict=True)
                if window  # else it was dropped in between
            ]
        return found

    def clear(self) -> None:
        """Forget everything, so that a follower builds the view again from the start of the topic."""
        self._server.call("cleared", self._clear)

    def _clear(self) -> None:
        self._client.delete(self.base)  # first the position: a follower that is at work begins anew
        for job in map(bytes.decode, self._client.hkeys(f"{self.base}:jobs")):
            for end in map(bytes.decode, self._client.zrange(f"{self.base}:windows:{job}", 0, -1)):
                self._client.delete(f"{self.base}:window:{job}:{end}", f"{self.base}:order:{job}:{end}")
            self._client.delete(f"{self.base}:windows:{job}")
        self._client.delete(f"{self.base}:jobs")
