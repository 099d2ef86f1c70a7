-- Events of a player, one of three kinds by a tag: how many of each kind, and the seconds played.
CREATE TEMPORARY TABLE events (
  ts BIGINT,
  body ROW<`type` STRING, seconds BIGINT>,
  kind AS body.`type`,
  moment AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR moment AS moment
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (window_start BIGINT, kind STRING, `count` BIGINT, seconds BIGINT) WITH (${SINK});

INSERT INTO results
SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)), kind, COUNT(*), COALESCE(SUM(body.seconds), 0)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, kind;
