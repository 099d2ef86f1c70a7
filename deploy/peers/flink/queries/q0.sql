-- Every bid as it is.
CREATE TEMPORARY TABLE events (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING>
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING) WITH (${SINK});

INSERT INTO results
SELECT bid.auction, bid.bidder, bid.price, bid.`dateTime`, bid.extra FROM events WHERE event_type = 2;
