"""The queries of the Spark oracle as SQL, over the view ``accepted``.

Its columns are partition, kind, event_ms, window_end, closed_ms and the typed fields of the records, of which
``date_time`` is the text on the wire. window_end is that of the last window that takes the record: of the only one
where they are tumbling. closed_ms: windows that end then or before were closed when the record came; null: none was.
``partitions`` is a view of the partition numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

PERSON, AUCTION, BID = 0, 1, 2
WINDOW_MS = 10_000
HOP_MS = 2_000

_BID_ROW = ("auction", "bidder", "price", "dateTime", "extra")


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """SQL of a query, the condition for a record to count, and the fields that records of each kind must have.

    Every kind must have a valid ``dateTime``. Windows are 10 s long; one begins every ``slide_ms``.
    """

    sql: str
    where: str = f"kind = {BID}"
    windowed: bool = False
    bid_needs: tuple[str, ...] = ("dateTime",)
    auction_needs: tuple[str, ...] = ("dateTime",)
    person_needs: tuple[str, ...] = ("dateTime",)
    slide_ms: int = WINDOW_MS

    def needs(self, kind: int) -> tuple[str, ...]:
        """Names of the fields that a record of a kind must have."""
        return {PERSON: self.person_needs, AUCTION: self.auction_needs, BID: self.bid_needs}[kind]


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

_Q5 = f"""
WITH placed AS (
    SELECT auction, closed_ms, EXPLODE(SEQUENCE(window_end - {WINDOW_MS - HOP_MS}, window_end, {HOP_MS})) AS window_end
    FROM accepted),
counted AS (
    SELECT auction, window_end, COUNT(*) AS num FROM placed
    WHERE closed_ms IS NULL OR window_end > closed_ms GROUP BY auction, window_end),
most AS (SELECT window_end, MAX(num) AS num FROM counted GROUP BY window_end)
SELECT c.auction, c.num, c.window_end FROM counted c JOIN most m ON c.window_end = m.window_end AND c.num = m.num
"""

_Q8 = f"""
WITH came AS (SELECT DISTINCT id, name, window_end FROM accepted WHERE kind = {PERSON}),
     sell AS (SELECT DISTINCT seller, window_end FROM accepted WHERE kind = {AUCTION})
SELECT c.id, c.name, c.window_end - {WINDOW_MS} AS starttime
FROM came c JOIN sell s ON c.id = s.seller AND c.window_end = s.window_end
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
    "q5": SparkQuery(_Q5, windowed=True, bid_needs=("auction", "dateTime"), slide_ms=HOP_MS),
    "q7": SparkQuery(_Q7, windowed=True, bid_needs=_BID_ROW),
    "q7max": SparkQuery(
        "SELECT window_end, MAX(price) AS max_price, COUNT(*) AS bids FROM accepted GROUP BY window_end",
        windowed=True,
        bid_needs=("price", "dateTime"),
    ),
    "q8": SparkQuery(
        _Q8,
        where=f"kind <> {BID}",
        windowed=True,
        auction_needs=("seller", "dateTime"),
        person_needs=("id", "name", "dateTime"),
    ),
    "query1": SparkQuery(_QUERY1, windowed=True),
}
