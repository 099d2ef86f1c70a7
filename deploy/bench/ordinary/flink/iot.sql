-- Devices whose records come up to 60 s late and are broken at times: count and maximum of each of 100.
CREATE TEMPORARY TABLE events (
  device STRING,
  temperature DOUBLE,
  ts BIGINT,
  moment AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR moment AS moment - INTERVAL '60' SECOND
) WITH (${SOURCE}, 'json.ignore-parse-errors' = 'true');

CREATE TEMPORARY TABLE results (window_start BIGINT, device STRING, `count` BIGINT, top DOUBLE) WITH (${SINK});

CREATE TEMPORARY VIEW measured AS SELECT * FROM events WHERE temperature IS NOT NULL;

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), device, COUNT(*), MAX(temperature)
FROM TABLE(TUMBLE(TABLE measured, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, device;
