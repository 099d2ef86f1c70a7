"""The queries of the Spark oracle as SQL, over the view ``accepted``.

Its columns: partition, kind, event_ms, window_end (of the tumbling 10 s window), and the typed fields of the records,
of which ``date_time`` is the text on the wire. ``partitions`` is a view of the partition numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PERSON, AUCTION, BID = 0, 1, 2
WINDOW_MS = 10_000

_BID_ROW = ("auction", "bidder", "price", "dateTime", "extra")


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """SQL of a query, the condition for a record to count, and the fields that bids and auctions must have.

    Every kind must have a valid ``dateTime``.
    """

    sql: str
    where: str = f"kind = {BID}"
    windowed: bool = False
    bid_needs: tuple[str, ...] = ("dateTime",)
    auction_needs: tuple[str, ...] = field(default=("dateTime",))

    def needs(self, kind: int) -> tuple[str, ...]:
        """Names of the fields that a record of a kind must have."""
        return {AUCTION: self.auction_needs, BID: self.bid_needs}.get(kind, ("dateTime",))


_Q1 = """
SELECT auction, bidder,
       CAST(CAST(CAST(price AS DECIMAL(19, 0)) * 0.908BD AS DECIMAL(23, 3)) AS STRING) AS price,
       date_time AS dateTime, extra
FROM accepted
"""

_Q4 = """
WITH final AS (
    SELECT a.window_end, a.id, a.category, MAX(b.price) AS price
    FROM accepted a JOIN accepted b
      ON a.id = b.auction AND a.window_end = b.window_end AND b.event_ms BETWEEN a.event_ms AND a.expires_ms
    WHERE a.kind = 1 AND b.kind = 2
    GROUP BY a.window_end, a.id, a.category)
SELECT window_end, category, SUM(CAST(price AS DECIMAL(38, 0))) DIV COUNT(*) AS avg
FROM final GROUP BY window_end, category
"""

_Q4_OFFICIAL = """
WITH final AS (
    SELECT a.id, a.category, MAX(b.price) AS price
    FROM accepted a JOIN accepted b ON a.id = b.auction AND b.event_ms BETWEEN a.event_ms AND a.expires_ms
    WHERE a.kind = 1 AND b.kind = 2
    GROUP BY a.id, a.category)
SELECT category, SUM(CAST(price AS DECIMAL(38, 0))) DIV COUNT(*) AS avg
FROM final GROUP BY category
"""

# Both borders of the window belong to the official join, so a bid at a window's end may match two windows.
_Q7 = f"""
WITH highest AS (SELECT window_end, MAX(price) AS price FROM accepted GROUP BY window_end)
SELECT b.auction, b.price, b.bidder, b.date_time AS dateTime, b.extra, h.window_end
FROM accepted b JOIN highest h
  ON b.price = h.price AND b.event_ms BETWEEN h.window_end - {WINDOW_MS} AND h.window_end
"""

_QUERY1 = """
WITH bids AS (SELECT partition, window_end, COUNT(*) AS bids FROM accepted GROUP BY partition, window_end),
     total AS (SELECT window_end, SUM(bids) AS bids FROM bids GROUP BY window_end)
SELECT p.partition, t.window_end AS `window`, COALESCE(b.bids, 0) AS local, t.bids AS global
FROM total t CROSS JOIN partitions p
LEFT JOIN bids b ON b.partition = p.partition AND b.window_end = t.window_end
"""

SPARK_QUERIES = {
    "q0": SparkQuery("SELECT auction, bidder, price, date_time AS dateTime, extra FROM accepted", bid_needs=_BID_ROW),
    "q1": SparkQuery(_Q1, bid_needs=_BID_ROW),
    "q2": SparkQuery(
        "SELECT auction, price FROM accepted",
        where=f"kind = {BID} AND auction % 123 = 0",
        bid_needs=("auction", "price", "dateTime"),
    ),
    "q4": SparkQuery(
        _Q4,
        where=f"kind <> {PERSON}",
        windowed=True,
        bid_needs=("auction", "price", "dateTime"),
        auction_needs=("id", "category", "dateTime", "expires"),
    ),
    "q4official": SparkQuery(
        _Q4_OFFICIAL,
        where=f"kind <> {PERSON}",
        bid_needs=("auction", "price", "dateTime"),
        auction_needs=("id", "category", "dateTime", "expires"),
    ),
    "q7": SparkQuery(_Q7, windowed=True, bid_needs=_BID_ROW),
    "q7max": SparkQuery(
        "SELECT window_end, MAX(price) AS max_price, COUNT(*) AS bids FROM accepted GROUP BY window_end",
        windowed=True,
        bid_needs=("price", "dateTime"),
    ),
    "query1": SparkQuery(_QUERY1, windowed=True),
}
