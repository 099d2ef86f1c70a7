"""All tests, by folder: unit, laws, sim, integration, attack; and tidy, the checker of the house rules."""
