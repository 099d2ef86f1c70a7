-- The persons who put something up for auction in the window of 10 s in which they came.
CREATE TEMPORARY TABLE events (
  event_type INT,
  person ROW<id BIGINT, name STRING, `dateTime` TIMESTAMP(3)>,
  auction ROW<seller BIGINT, `dateTime` TIMESTAMP(3)>,
  bid ROW<`dateTime` TIMESTAMP(3)>,
  `dateTime` AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (id BIGINT, name STRING, starttime TIMESTAMP(3)) WITH (${SINK});

CREATE TEMPORARY VIEW person AS SELECT person.id, person.name, `dateTime` FROM events WHERE event_type = 0;

CREATE TEMPORARY VIEW auction AS SELECT auction.seller, `dateTime` FROM events WHERE event_type = 1;

INSERT INTO results
SELECT P.id, P.name, P.window_start
FROM (
  SELECT id, name, window_start, window_end
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end) P
JOIN (
  SELECT seller, window_start, window_end
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end) A
ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end;
