-- Trades with ISO times in ns: volume and the highest price of each of 50 symbols.
CREATE TEMPORARY TABLE events (
  `time` TIMESTAMP_LTZ(9),
  symbol STRING,
  price DOUBLE,
  quantity BIGINT,
  moment AS CAST(`time` AS TIMESTAMP_LTZ(3)),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE_ISO});

CREATE TEMPORARY TABLE results (window_start BIGINT, symbol STRING, volume BIGINT, high DOUBLE) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), symbol, SUM(quantity), MAX(price)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, symbol;
