-- Card payments: exact sums of decimals for each of 200 merchants; times are whole seconds.
CREATE TEMPORARY TABLE events (
  merchant STRING,
  amount DECIMAL(12, 2),
  `at` BIGINT,
  moment AS TO_TIMESTAMP_LTZ(`at` * 1000, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, merchant STRING, `count` BIGINT, total STRING) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), merchant, COUNT(*), CAST(SUM(amount) AS STRING)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, merchant;
