"""The Nexmark generator: events as a pure, vectorised function of (seed, event number)."""

from nexmark.generator.config import GeneratorConfig
from nexmark.generator.events import Auctions, Bids, Events, Persons, generate, generate_slice
from nexmark.generator.json_lines import encode_json

__all__ = [
    "Auctions",
    "Bids",
    "Events",
    "GeneratorConfig",
    "Persons",
    "encode_json",
    "generate",
    "generate_slice",
]
