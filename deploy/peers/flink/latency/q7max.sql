-- The highest price and the number of bids of short windows, as soon as every partition is past their end.
CREATE TEMPORARY TABLE events (
  event_type INT,
  person ROW<`dateTime` TIMESTAMP(3)>,
  auction ROW<`dateTime` TIMESTAMP(3)>,
  bid ROW<price BIGINT, `dateTime` TIMESTAMP(3)>,
  `dateTime` AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '0.001' SECOND
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_end TIMESTAMP(3), max_price BIGINT, bids BIGINT) WITH (${SINK});

CREATE TEMPORARY VIEW bid AS SELECT bid.price, `dateTime` FROM events WHERE event_type = 2;

INSERT INTO results
SELECT window_end, MAX(price), COUNT(*)
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '${WINDOW_S}' SECOND))
GROUP BY window_start, window_end;
