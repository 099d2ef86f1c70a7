-- Changes of a table with null values: how many of each kind, and the sum of the new balances that there are.
CREATE TEMPORARY TABLE events (
  op STRING,
  after ROW<balance BIGINT>,
  ts_ms BIGINT,
  moment AS TO_TIMESTAMP_LTZ(ts_ms, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, op STRING, `count` BIGINT, balance BIGINT) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), op, COUNT(*), COALESCE(SUM(after.balance), 0)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, op;
