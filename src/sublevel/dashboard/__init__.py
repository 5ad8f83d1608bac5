"""A local page that follows stored runs: `sublevel dashboard`."""
