-- The average, by category, of the best valid bids of all auctions: a changelog.
CREATE TEMPORARY TABLE events (
  event_type INT,
  auction ROW<id BIGINT, category BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3)>,
  bid ROW<auction BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)>,
  `dateTime` AS CASE event_type WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${SOURCE});

CREATE TEMPORARY TABLE results (category BIGINT, `avg` BIGINT${KEY}) WITH (${SINK});

CREATE TEMPORARY VIEW auction AS
SELECT auction.id, auction.category, auction.expires, `dateTime` FROM events WHERE event_type = 1;

CREATE TEMPORARY VIEW bid AS SELECT bid.auction, bid.price, `dateTime` FROM events WHERE event_type = 2;

INSERT INTO results
SELECT category, AVG(final)
FROM (
  SELECT A.category, MAX(B.price) AS final
  FROM auction A JOIN bid B ON A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
  GROUP BY A.id, A.category)
GROUP BY category;
