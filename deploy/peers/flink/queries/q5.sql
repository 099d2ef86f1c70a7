-- The auctions with the most bids of each window of 10 s, one every 2 s.
CREATE TEMPORARY TABLE events (
  event_type INT,
  bid ROW<auction BIGINT, `dateTime` TIMESTAMP(3)>,
  `dateTime` AS bid.`dateTime`,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (auction BIGINT, num BIGINT, window_end TIMESTAMP(3)) WITH (${SINK});

CREATE TEMPORARY VIEW bid AS SELECT bid.auction, `dateTime` FROM events WHERE event_type = 2;

CREATE TEMPORARY VIEW counted AS
SELECT auction, COUNT(*) AS num, window_start, window_end
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;

INSERT INTO results
SELECT C.auction, C.num, C.window_end
FROM counted C
JOIN (SELECT MAX(num) AS num, window_start, window_end FROM counted GROUP BY window_start, window_end) M
  ON C.window_start = M.window_start AND C.window_end = M.window_end AND C.num >= M.num;
