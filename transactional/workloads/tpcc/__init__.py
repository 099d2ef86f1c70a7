"""TPC-C: wholesale orders in warehouses with ten districts each. Source: the TPC-C specification, revision 5.11.

Money is in cents, rates in ten-thousandths. Deviations: lines are part of their order; items are replicated in each
warehouse (clause 1.4.6 allows it). Two indices are entities of their own, as is each district's oldest open order. All
keys begin with the warehouse, so that a warehouse is in one partition.
"""
