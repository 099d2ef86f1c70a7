-- Stock ticks keyed by exchange and symbol: count, highest and lowest price of each of 400 pairs.
CREATE TEMPORARY TABLE events (
  exchange STRING,
  symbol STRING,
  price DOUBLE,
  ts BIGINT,
  moment AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, exchange STRING, symbol STRING, `count` BIGINT, high DOUBLE, low DOUBLE) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), exchange, symbol, COUNT(*), MAX(price), MIN(price)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, exchange, symbol;
