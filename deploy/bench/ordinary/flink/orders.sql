-- Orders with objects inside of objects: how many, and their worth in cents, by the city that they go to.
CREATE TEMPORARY TABLE events (
  shipping ROW<address ROW<city STRING>>,
  payment ROW<cents BIGINT>,
  ts BIGINT,
  city AS shipping.address.city,
  moment AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, city STRING, `count` BIGINT, cents BIGINT) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), city, COUNT(*), SUM(payment.cents)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, city;
