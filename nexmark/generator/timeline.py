"""Event numbers to ids, kinds and times (the reference's generator, base-0 arithmetic)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nexmark.generator.config import GeneratorConfig
from nexmark.model import AUCTION, BID, PERSON

EPOCH_EVENTS = 50  # 1 person, 3 auctions, 46 bids
AUCTIONS_PER_EPOCH = 3
FIRST_BID_OFFSET = 1 + AUCTIONS_PER_EPOCH

ACTIVE_PEOPLE = 1000
IN_FLIGHT_AUCTIONS = 100
ID_LEAD = 10  # ids may point so far into the future
AUCTION_LIFE_EVENTS = IN_FLIGHT_AUCTIONS * EPOCH_EVENTS // AUCTIONS_PER_EPOCH  # in which 100 auctions appear


def event_ids(config: GeneratorConfig, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The id of each event number: itself, or shuffled within its group."""
    group = config.out_of_order_group
    if group == 1:
        return numbers
    return numbers // group * group + numbers * 953 % group


def kinds(ids: NDArray[np.int64]) -> NDArray[np.int8]:
    """PERSON, AUCTION or BID by the place in the epoch of 50 events."""
    offset = ids % EPOCH_EVENTS
    later = np.where(offset < FIRST_BID_OFFSET, np.int8(AUCTION), np.int8(BID))
    return np.where(offset < 1, np.int8(PERSON), later)


def times_ms(config: GeneratorConfig, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Event time of each id.

    Deviation: the reference multiplies by a double number of microseconds; the quotient of integers is equal wherever
    1,000,000 / rate is an integer, and does not drift elsewhere.
    """
    return ids * 1000 // config.events_per_s + config.base_time_ms


def last_person(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Base-0 id of the last person at or before each event."""
    return ids // EPOCH_EVENTS


def last_auction(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Base-0 id of the last auction at or before each event; -1 before the first one."""
    epoch, offset = np.divmod(ids, EPOCH_EVENTS)
    return epoch * AUCTIONS_PER_EPOCH + np.minimum(offset, AUCTIONS_PER_EPOCH) - 1
