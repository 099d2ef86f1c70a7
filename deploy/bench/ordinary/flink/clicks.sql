-- Web clicks with arrays: how many clicks and tags each of 500 pages got, and the most tags at once.
CREATE TEMPORARY TABLE events (
  page STRING,
  tags ARRAY<STRING>,
  ts BIGINT,
  moment AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, page STRING, `count` BIGINT, tags BIGINT, most BIGINT) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), page, COUNT(*), SUM(CARDINALITY(tags)), MAX(CARDINALITY(tags))
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, page;
