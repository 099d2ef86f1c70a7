"""All tests, by folder: unit, laws, sim, integration, browser; and tidy, the checker of the house rules."""
