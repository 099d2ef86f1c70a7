-- Positions with floats only, times too: count, highest speed and average over all.
CREATE TEMPORARY TABLE events (
  lat DOUBLE,
  speed DOUBLE,
  t DOUBLE,
  moment AS TO_TIMESTAMP_LTZ(CAST(t * 1000 AS BIGINT), 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, `count` BIGINT, top DOUBLE, south DOUBLE, mean DOUBLE) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), COUNT(*), MAX(speed), MIN(lat), AVG(speed)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
