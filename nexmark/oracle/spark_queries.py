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
DAY_MS = 86_400_000
GAP_MS = 10_000

_BID_ROW = ("auction", "bidder", "price", "dateTime", "extra")


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """SQL of a query, the condition for a record to count, and the fields that records of each kind must have.

    Every kind must have a valid ``dateTime``. Windows are ``window_ms`` long; one begins every ``slide_ms``.
    """

    sql: str
    where: str = f"kind = {BID}"
    windowed: bool = False
    bid_needs: tuple[str, ...] = ("dateTime",)
    auction_needs: tuple[str, ...] = ("dateTime",)
    person_needs: tuple[str, ...] = ("dateTime",)
    slide_ms: int = WINDOW_MS
    window_ms: int = WINDOW_MS

    def needs(self, kind: int) -> tuple[str, ...]:
        """Names of the fields that a record of a kind must have."""
        return {PERSON: self.person_needs, AUCTION: self.auction_needs, BID: self.bid_needs}[kind]


_Q1 = """
SELECT auction, bidder,
       CAST(CAST(CAST(price AS DECIMAL(19, 0)) * 0.908BD AS DECIMAL(23, 3)) AS STRING) AS price,
       date_time AS dateTime, extra
FROM accepted
"""

_Q3 = f"""
SELECT p.name, p.city, p.state, a.id FROM accepted a JOIN accepted p ON a.seller = p.id
WHERE a.kind = {AUCTION} AND p.kind = {PERSON}
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

# Frames are of ranges, so bids at one time are in one session.
_Q11 = f"""
WITH marked AS (
    SELECT bidder, event_ms,
           CASE WHEN event_ms - LAG(event_ms) OVER (PARTITION BY bidder ORDER BY event_ms) <= {GAP_MS} THEN 0 ELSE 1 END
           AS is_first
    FROM accepted),
numbered AS (
    SELECT bidder, event_ms, SUM(is_first) OVER (PARTITION BY bidder ORDER BY event_ms) AS number FROM marked)
SELECT bidder, COUNT(*) AS bid_count, MIN(event_ms) AS starttime, MAX(event_ms) + {GAP_MS} AS endtime
FROM numbered GROUP BY bidder, number
"""

_Q12 = f"""
SELECT bidder, COUNT(*) AS bid_count, window_end - {WINDOW_MS} AS starttime, window_end AS endtime
FROM accepted GROUP BY bidder, window_end
"""

_EURO = "CAST(price AS DECIMAL(19, 0)) * 0.908BD"

_Q14 = f"""
WITH timed AS (SELECT *, PMOD(event_ms, {DAY_MS}) DIV 3600000 AS hour FROM accepted)
SELECT auction, bidder, CAST(CAST({_EURO} AS DECIMAL(23, 3)) AS STRING) AS price,
       CASE WHEN hour BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour <= 6 OR hour >= 20 THEN 'nightTime' ELSE 'otherTime' END
       AS bidTimeType,
       date_time AS dateTime, extra, LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM timed
"""

_RANKS = {
    "total": "TRUE",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
_BIDS_BY_RANK = ", ".join(f"COUNT_IF({which}) AS {rank}_bids" for rank, which in _RANKS.items())
_DISTINCT_BY_RANK = ", ".join(
    f"COUNT(DISTINCT CASE WHEN {which} THEN {column} END) AS {rank}_{column}s"
    for column in ("bidder", "auction")
    for rank, which in _RANKS.items()
)

# The text of a time begins with its day.
_Q15 = f"""
SELECT SUBSTR(date_time, 1, 10) AS day, {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
FROM accepted GROUP BY SUBSTR(date_time, 1, 10)
"""

_Q16 = f"""
SELECT channel, SUBSTR(date_time, 1, 10) AS day, MAX(SUBSTR(date_time, 12, 5)) AS minute,
       {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
FROM accepted GROUP BY channel, SUBSTR(date_time, 1, 10)
"""

_Q17 = f"""
SELECT auction, SUBSTR(date_time, 1, 10) AS day, {_BIDS_BY_RANK}, MIN(price) AS min_price, MAX(price) AS max_price,
       SUM(CAST(price AS DECIMAL(38, 0))) DIV COUNT(*) AS avg_price,
       SUM(CAST(price AS DECIMAL(38, 0))) AS sum_price
FROM accepted GROUP BY auction, SUBSTR(date_time, 1, 10)
"""

_KNOWN_CHANNEL = "LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')"

_Q21 = """
SELECT auction, bidder, price, channel,
       CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
       ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
FROM accepted
"""

_Q22 = """
SELECT auction, bidder, price, channel, GET(SPLIT(url, '/'), 3) AS dir1, GET(SPLIT(url, '/'), 4) AS dir2,
       GET(SPLIT(url, '/'), 5) AS dir3
FROM accepted
"""

_COUNTED = ("auction", "bidder", "price", "dateTime")
_LOCATED = ("auction", "bidder", "price", "channel", "url", "dateTime")

SPARK_QUERIES = {
    "q0": SparkQuery("SELECT auction, bidder, price, date_time AS dateTime, extra FROM accepted", bid_needs=_BID_ROW),
    "q1": SparkQuery(_Q1, bid_needs=_BID_ROW),
    "q2": SparkQuery(
        "SELECT auction, price FROM accepted",
        where=f"kind = {BID} AND auction % 123 = 0",
        bid_needs=("auction", "price", "dateTime"),
    ),
    "q3": SparkQuery(
        _Q3,
        where=f"(kind = {PERSON} AND state IN ('OR', 'ID', 'CA')) OR (kind = {AUCTION} AND category = 10)",
        auction_needs=("id", "seller", "category", "dateTime"),
        person_needs=("id", "name", "city", "state", "dateTime"),
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
    "q11": SparkQuery(_Q11, windowed=True, bid_needs=("bidder", "dateTime")),
    "q12": SparkQuery(_Q12, windowed=True, bid_needs=("bidder", "dateTime")),
    "q14": SparkQuery(_Q14, where=f"kind = {BID} AND {_EURO} > 1000000 AND {_EURO} < 50000000", bid_needs=_BID_ROW),
    "q15": SparkQuery(_Q15, windowed=True, bid_needs=_COUNTED, slide_ms=DAY_MS, window_ms=DAY_MS),
    "q16": SparkQuery(_Q16, windowed=True, bid_needs=(*_COUNTED, "channel"), slide_ms=DAY_MS, window_ms=DAY_MS),
    "q17": SparkQuery(
        _Q17, windowed=True, bid_needs=("auction", "price", "dateTime"), slide_ms=DAY_MS, window_ms=DAY_MS
    ),
    "q21": SparkQuery(
        _Q21,
        where=f"kind = {BID} AND ({_KNOWN_CHANNEL} OR url RLIKE '(&|^)channel_id=')",
        bid_needs=_LOCATED,
    ),
    "q22": SparkQuery(_Q22, bid_needs=_LOCATED),
}
