-- Records of a schema that is drawn from the seed; only three of its fields are used: a key, a value and a time.
CREATE TEMPORARY TABLE events (
  `key` BIGINT,
  `value` BIGINT,
  ts BIGINT,
  moment AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, `key` BIGINT, `count` BIGINT, top BIGINT) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), `key`, COUNT(*), MAX(COALESCE(`value`, 0))
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, `key`;
