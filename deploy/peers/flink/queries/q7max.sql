-- The highest price and the number of bids of each window of 10 s.
CREATE TEMPORARY TABLE events (
  event_type INT,
  bid ROW<price BIGINT, `dateTime` TIMESTAMP(3)>,
  `dateTime` AS bid.`dateTime`,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_end TIMESTAMP(3), max_price BIGINT, bids BIGINT) WITH (${SINK});

CREATE TEMPORARY VIEW bid AS SELECT bid.price, `dateTime` FROM events WHERE event_type = 2;

INSERT INTO results
SELECT window_end, MAX(price), COUNT(*)
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
