"""The conditions after a workload, in Spark's SQL: each query gives a sentence (``text``) for what does not.

Views: ``placed`` (sequencer, at, place, id, operator, key, function, args), ``state`` (operator, key, value),
``answers`` (sequencer, at, place). ``done`` is as ``placed``, of the first request of each id that committed, with
``result``. ``args``, ``result`` and ``value`` are JSON.
"""

from __future__ import annotations

ANSWERED = """
SELECT concat('request ', id, ' has ', coalesce(n, 0), ' replies') AS text
FROM placed LEFT JOIN (SELECT sequencer, at, place, COUNT(*) AS n FROM answers GROUP BY ALL)
    USING (sequencer, at, place)
WHERE coalesce(n, 0) <> 1
"""

YCSB_T = {
    "moved": """
SELECT key, 1000000L AS delta FROM done WHERE function = 'insert'
UNION ALL SELECT key, -CAST(get_json_object(args, '$[1]') AS BIGINT) FROM done WHERE function = 'transfer'
UNION ALL SELECT get_json_object(args, '$[0]'), CAST(get_json_object(args, '$[1]') AS BIGINT)
FROM done WHERE function = 'transfer'""",
    "expected": "SELECT key, SUM(delta) AS balance FROM moved GROUP BY key",
    "found": "SELECT key, CAST(value AS BIGINT) AS balance FROM state WHERE operator = 'account'",
}
YCSB_T_RULES = (
    """
SELECT concat('the balance of ', key, ' is ', coalesce(CAST(f.balance AS STRING), 'not there'), ', and ',
    coalesce(CAST(e.balance AS STRING), 'nothing'), ' follows from the requests and replies') AS text
FROM expected e FULL OUTER JOIN found f USING (key) WHERE NOT (e.balance <=> f.balance)
""",
)

_ROWS = "SELECT split(key, '/') AS k, from_json(value, 'array<string>') AS v FROM state WHERE operator = '{}'"
_PLACE = "CAST(k[0] AS INT) AS w, CAST(k[1] AS INT) AS d"
_LINES = "CAST(line[0] AS INT) AS i, CAST(line[1] AS INT) AS supplier, CAST(line[2] AS INT) AS quantity"
TPCC = {
    "warehouse": f"SELECT CAST(k[0] AS INT) AS w, CAST(v[1] AS BIGINT) AS ytd FROM ({_ROWS.format('warehouse')})",
    "district": f"""
SELECT {_PLACE}, CAST(v[1] AS BIGINT) AS ytd, CAST(v[2] AS INT) AS following FROM ({_ROWS.format("district")})""",
    "customer": f"""
SELECT {_PLACE}, CAST(k[2] AS INT) AS c, CAST(v[4] AS BIGINT) AS balance, CAST(v[5] AS BIGINT) AS ytd_payment,
    CAST(v[6] AS INT) AS payments FROM ({_ROWS.format("customer")})""",
    "paid": f"""
SELECT {_PLACE}, CAST(v[0] AS INT) AS c_w, CAST(v[1] AS INT) AS c_d, CAST(v[2] AS INT) AS c,
    CAST(v[3] AS BIGINT) AS amount FROM ({_ROWS.format("payment_history")})""",
    "orders": f"""
SELECT {_PLACE}, CAST(k[2] AS INT) AS o, CAST(v[0] AS INT) AS c, v[2] IS NULL AS open, CAST(v[3] AS INT) AS line_count,
    from_json(v[5], 'array<array<string>>') AS lines FROM ({_ROWS.format("order")})""",
    "lines": f"""
SELECT w, d, o, c, open, n, {_LINES}, CAST(line[3] AS BIGINT) AS amount, line[4] IS NULL AS undelivered
FROM (SELECT *, posexplode(lines) AS (n, line) FROM orders)""",
    "open_orders": f"SELECT {_PLACE}, CAST(k[2] AS INT) AS o FROM ({_ROWS.format('new_order')})",
    "stock": f"""
SELECT CAST(k[0] AS INT) AS w, CAST(k[1] AS INT) AS i, CAST(v[1] AS BIGINT) AS ytd, CAST(v[2] AS BIGINT) AS orders,
    CAST(v[3] AS BIGINT) AS remote FROM ({_ROWS.format("stock")})""",
    "loads": """
SELECT split(key, '/') AS k, function, from_json(args, 'array<int>') AS a FROM done
WHERE function IN ('load_orders', 'load_customers')""",
    "loaded": f"""
SELECT *, o <= customers - still_open AS delivered FROM (
    SELECT {_PLACE}, explode(sequence(a[1], a[2] - 1)) AS o, a[3] AS customers, a[5] AS still_open
    FROM loads WHERE function = 'load_orders')""",
    "ordered": f"""
SELECT {_PLACE}, CAST(get_json_object(result, '$[0]') AS INT) AS o,
    from_json(get_json_object(args, '$[1]'), 'array<array<string>>') AS lines
FROM (SELECT *, split(key, '/') AS k FROM done WHERE function = 'place_order')""",
    "ordered_lines": f"SELECT w, d, o, n, {_LINES} FROM (SELECT *, posexplode(lines) AS (n, line) FROM ordered)",
    "payments": f"""
SELECT {_PLACE}, 1000L * (a[2] - a[1]) AS amount FROM loads WHERE function = 'load_customers'
UNION ALL SELECT CAST(key AS INT), CAST(get_json_object(args, '$[0]') AS INT),
    CAST(get_json_object(args, '$[4]') AS BIGINT) FROM done WHERE function = 'take_payment'""",
    "deliveries": """
SELECT w, 1 + n AS d, CAST(number AS INT) AS o FROM (
    SELECT CAST(key AS INT) AS w, posexplode(from_json(result, 'array<string>')) AS (n, number)
    FROM done WHERE function = 'deliver_orders') WHERE number IS NOT NULL
UNION ALL SELECT w, d, o FROM loaded WHERE delivered""",
    "per_customer": """
SELECT w, d, c, SUM(got) AS got, SUM(gave) AS gave, SUM(times) AS times FROM (
    SELECT w, d, c, SUM(amount) AS got, 0L AS gave, 0L AS times FROM lines WHERE NOT open GROUP BY w, d, c
    UNION ALL SELECT c_w, c_d, c, 0L, SUM(amount), COUNT(*) FROM paid GROUP BY c_w, c_d, c) GROUP BY w, d, c""",
}  # fmt: skip
"""Views, in the order in which they rest upon each other."""


def _rule(name: str, where: str, found: str, expected: str, source: str) -> str:
    return f"""
SELECT concat('{name} of ', concat_ws('/', {where}), ' is ', coalesce(CAST({found} AS STRING), 'not there'), ', and ',
    coalesce(CAST({expected} AS STRING), 'nothing'), ' is expected') AS text
FROM {source} WHERE NOT ({found} <=> {expected})
"""


def _sums(table: str, by: str, what: str) -> str:
    return f"(SELECT {by}, {what} FROM {table} GROUP BY {by})"


TPCC_RULES = (
    _rule("condition 1: W_YTD", "w", "ytd", "sum",
          f"warehouse JOIN {_sums('district', 'w', 'SUM(ytd) AS sum')} USING (w)"),
    _rule("condition 2: D_NEXT_O_ID - 1", "w, d", "following - 1", "newest",
          f"district LEFT JOIN {_sums('orders', 'w, d', 'MAX(o) AS newest')} USING (w, d)"),
    _rule("condition 2: the newest open order", "w, d", "newest", "following - 1",
          f"district JOIN {_sums('open_orders', 'w, d', 'MAX(o) AS newest')} USING (w, d)"),
    _rule("condition 3: the number of open orders", "w, d", "n", "run",
          _sums("open_orders", "w, d", "COUNT(*) AS n, MAX(o) - MIN(o) + 1 AS run")),
    _rule("condition 4: the number of order lines", "w, d", "n", "reported",
          _sums("orders", "w, d", "SUM(size(lines)) AS n, SUM(line_count) AS reported")),
    _rule("condition 5: the openness of order", "w, d, o", "open", "listed",
          "(SELECT w, d, o, open, y IS NOT NULL AS listed FROM orders LEFT JOIN "
          "(SELECT w, d, o, o AS y FROM open_orders) USING (w, d, o))"),
    _rule("condition 5: the order of open order", "w, d, o", "is_there", "TRUE",
          "(SELECT w, d, o, z IS NOT NULL AS is_there FROM open_orders LEFT JOIN (SELECT w, d, o, o AS z FROM orders)"
          " USING (w, d, o))"),
    _rule("condition 6: the number of lines of order", "w, d, o", "size(lines)", "line_count", "orders"),
    _rule("condition 7: the openness of a line of order", "w, d, o", "undelivered", "open", "lines"),
    _rule("condition 8: W_YTD", "w", "ytd", "sum",
          f"warehouse LEFT JOIN {_sums('paid', 'w', 'SUM(amount) AS sum')} USING (w)"),
    _rule("condition 9: D_YTD", "w, d", "ytd", "sum",
          f"district LEFT JOIN {_sums('paid', 'w, d', 'SUM(amount) AS sum')} USING (w, d)"),
    _rule("condition 10: C_BALANCE", "w, d, c", "balance", "coalesce(got - gave, 0)",
          "customer LEFT JOIN per_customer USING (w, d, c)"),
    _rule("condition 12: C_BALANCE + C_YTD_PAYMENT", "w, d, c", "balance + ytd_payment", "coalesce(got, 0)",
          "customer LEFT JOIN per_customer USING (w, d, c)"),
    _rule("the number of payments", "w, d, c", "payments", "coalesce(times, 0)",
          "customer LEFT JOIN per_customer USING (w, d, c)"),
    _rule("the number of orders with the number", "w, d, o", "coalesce(n, 0)", "coalesce(reported, 0)",
          f"{_sums('orders', 'w, d, o', 'COUNT(*) AS n')} FULL OUTER JOIN (SELECT w, d, o, COUNT(*) AS reported FROM "
          "(SELECT w, d, o FROM loaded UNION ALL SELECT w, d, o FROM ordered) GROUP BY w, d, o) USING (w, d, o)"),
    _rule("a line (order, place)", "w, d, o, n", "concat_ws(' ', f.i, f.supplier, f.quantity)",
          "concat_ws(' ', e.i, e.supplier, e.quantity)", "ordered_lines e LEFT JOIN lines f USING (w, d, o, n)"),
    _rule("the sum of payments", "w, d", "found", "reported",
          f"{_sums('paid', 'w, d', 'SUM(amount) AS found')} FULL OUTER JOIN "
          f"{_sums('payments', 'w, d', 'SUM(amount) AS reported')} USING (w, d)"),
    _rule("quantity, orders, remote orders of stock", "w, i", "concat_ws(' ', ytd, orders, remote)",
          "concat_ws(' ', coalesce(sum, 0), coalesce(n, 0), coalesce(far, 0))",
          "stock FULL OUTER JOIN (SELECT supplier AS w, i, SUM(quantity) AS sum, COUNT(*) AS n, "
          "SUM(CAST(supplier <> w AS INT)) AS far FROM ordered_lines GROUP BY supplier, i) USING (w, i)"),
    _rule("the number of deliveries of order", "w, d, o", "coalesce(n, 0)", "coalesce(reported, 0)",
          "(SELECT w, d, o, COUNT(*) AS n FROM orders WHERE NOT open GROUP BY w, d, o) FULL OUTER JOIN "
          f"{_sums('deliveries', 'w, d, o', 'COUNT(*) AS reported')} USING (w, d, o)"),
)  # fmt: skip
"""Conditions 1 to 10 and 12 of the specification's clause 3.3.2, and agreement with requests and replies."""

KNOWN = {"ycsb-t": (YCSB_T, YCSB_T_RULES), "tpcc": (TPCC, TPCC_RULES), "tpcc-full": (TPCC, TPCC_RULES)}
"""Views and rules of each workload that is known."""
