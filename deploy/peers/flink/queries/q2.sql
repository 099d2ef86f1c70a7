-- The bids on every 123rd auction.
CREATE TEMPORARY TABLE events (
  event_type INT,
  bid ROW<auction BIGINT, price BIGINT>
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (auction BIGINT, price BIGINT) WITH (${SINK});

INSERT INTO results
SELECT bid.auction, bid.price FROM events WHERE event_type = 2 AND MOD(bid.auction, 123) = 0;
