-- Lines of logs with free text and ISO times: by service, how many lines there are and how many are of errors.
CREATE TEMPORARY TABLE events (
  `time` TIMESTAMP_LTZ(3),
  service STRING,
  level STRING,
  moment AS `time`,
  WATERMARK FOR moment AS moment
) WITH (${SOURCE_ISO});

CREATE TEMPORARY TABLE results (window_start BIGINT, service STRING, `count` BIGINT, errors BIGINT) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), service, COUNT(*), COUNT(*) FILTER (WHERE level = 'ERROR')
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, service;
