"""Cases, objectives, oracles and scripts that several test files use."""
