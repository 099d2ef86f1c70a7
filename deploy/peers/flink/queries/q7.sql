-- The bids at the highest price of each window of 10 s: the official join, with both borders of the window included.
CREATE TEMPORARY TABLE events (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING>,
  `dateTime` AS bid.`dateTime`,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (auction BIGINT, price BIGINT, bidder BIGINT, `dateTime` TIMESTAMP(3), extra STRING, window_end TIMESTAMP(3)) WITH (${SINK});

CREATE TEMPORARY VIEW bid AS SELECT bid.auction, bid.price, bid.bidder, bid.extra, `dateTime` FROM events WHERE event_type = 2;

INSERT INTO results
SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra, M.window_end
FROM bid B
JOIN (
  SELECT MAX(price) AS price, window_end
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end) M
ON B.price = M.price
WHERE B.`dateTime` BETWEEN M.window_end - INTERVAL '10' SECOND AND M.window_end;
