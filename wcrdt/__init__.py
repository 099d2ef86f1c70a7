"""Windowed CRDTs: lattices, windows and the laws that they keep. Pure: no I/O, clock, thread or randomness."""

from wcrdt.codec import DecodeError, canonical_bytes, decode, encode
from wcrdt.lattice import Lattice
from wcrdt.lattices.booleans import BoolAnd, BoolOr
from wcrdt.lattices.counted import Bag, Distribution, Quantiles
from wcrdt.lattices.counters import GCounter, PNCounter
from wcrdt.lattices.documents.types import YArray, YMap, YText
from wcrdt.lattices.exact_sums.moments import Line, LinearRegression, Variance
from wcrdt.lattices.exact_sums.sums import Average, Sum
from wcrdt.lattices.extremes import Max, Min
from wcrdt.lattices.histogram import Histogram
from wcrdt.lattices.maps import ColumnsOf, MapOf
from wcrdt.lattices.max_by import MaxBy, MinBy
from wcrdt.lattices.of_largest import OfLargest
from wcrdt.lattices.orset import ORSet
from wcrdt.lattices.records import PairOf, RecordOf
from wcrdt.lattices.rows.row_log import RowColumns, RowLog
from wcrdt.lattices.sets import CountDistinct, GSet
from wcrdt.lattices.theta import ThetaSketch
from wcrdt.lattices.topk import TopK
from wcrdt.laws import LawBroken, check_laws
from wcrdt.windows.assigners import Assigner, Sliding, Tumbling, Window
from wcrdt.windows.data_driven import Between, Change, Count, DataDriven
from wcrdt.windows.sessions import Session

__all__ = [
    "Assigner",
    "Average",
    "Bag",
    "Between",
    "BoolAnd",
    "BoolOr",
    "Change",
    "ColumnsOf",
    "Count",
    "CountDistinct",
    "DataDriven",
    "DecodeError",
    "Distribution",
    "GCounter",
    "GSet",
    "Histogram",
    "Lattice",
    "LawBroken",
    "Line",
    "LinearRegression",
    "MapOf",
    "Max",
    "MaxBy",
    "Min",
    "MinBy",
    "ORSet",
    "OfLargest",
    "PNCounter",
    "PairOf",
    "Quantiles",
    "RecordOf",
    "RowColumns",
    "RowLog",
    "Session",
    "Sliding",
    "Sum",
    "ThetaSketch",
    "TopK",
    "Tumbling",
    "Variance",
    "Window",
    "YArray",
    "YMap",
    "YText",
    "canonical_bytes",
    "check_laws",
    "decode",
    "encode",
]
