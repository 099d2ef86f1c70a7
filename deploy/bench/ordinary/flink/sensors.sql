-- Readings of sensors: count and maximum of a float for each of 1,000 keys; texts that are not ASCII.
CREATE TEMPORARY TABLE events (
  sensor STRING,
  `value` DOUBLE,
  ts BIGINT,
  moment AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, sensor STRING, `count` BIGINT, top DOUBLE) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), sensor, COUNT(*), MAX(`value`)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, sensor;
